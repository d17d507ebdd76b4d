// scaling.html: the measured layouts as one page, without scripts and without the network: the times and what they are
// made of, the speed-up beside the ideal and the model, the model's coefficients. Pure.
#pragma once

#include <tutti/tools/labs/scaling/model.h>

#include <string>

namespace tutti::labs::scaling {

std::string page_of(const Results& results, const Model& model);

}  // namespace tutti::labs::scaling
