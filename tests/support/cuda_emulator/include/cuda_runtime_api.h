// What NVIDIA separates and we do not.
#pragma once

#include "cuda_runtime.h"
