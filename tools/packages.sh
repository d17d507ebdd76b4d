# The Debian packages that Tutti needs, and how to get them. Sourced by tools/quickstart and tools/check.
# shellcheck shell=bash disable=SC2034

tutti_build_packages=(
  cmake ninja-build g++ ccache
  libasio-dev libssl-dev libeigen3-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
  libpng-dev libjpeg-dev libtiff-dev libseccomp-dev
  libgtest-dev libbenchmark-dev python3
)
# What a few tests use beside, and skip without: of pkg-config's files and of Debian packages.
tutti_test_packages=(pkg-config dpkg-dev file clang-format curl)
# What tools/check --peers installs beside: programs that some tests compare with, or run under.
tutti_peer_packages=(python3-venv openmpi-bin libopenmpi-dev mpich slurmctld slurmd slurm-client munge chromium libucx-dev)
tutti_peer_modules=("torch>=2.15" numpy safetensors tensorboard expecttest pytest "setuptools>=70.1")

say() { printf '== %s\n' "$*"; }

# Installs those of the packages given that are missing, as root or with sudo. Without apt: says what is needed and ends
# with status 1 if a tool is absent that nothing works without.
install_missing() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    require_tools "$@"
    return
  fi
  local missing=() package
  for package in "$@"; do
    # shellcheck disable=SC2016  # ${Status} is dpkg-query's own
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then return; fi

  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      printf 'These packages are missing: %s\nInstall them as root, then run this again:\n  apt-get install %s\n' \
        "${missing[*]}" "${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  say "installing missing packages${as_root[0]:+ (with sudo)}: ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

require_tools() {
  local absent=() tool
  for tool in cmake ninja c++ python3; do
    command -v "$tool" >/dev/null || absent+=("$tool")
  done
  say "this system has no apt; by Debian's names Tutti needs: $*"
  if ((${#absent[@]} > 0)); then
    printf 'Not found: %s. Install these and the libraries above, then run this again.\n' "${absent[*]}" >&2
    exit 1
  fi
}

# Parallel jobs: one for each CPU, but no more than memory allows (a heavy file takes about 1.5 GiB).
build_jobs() {
  local cpus memory_jobs
  cpus=$(nproc)
  memory_jobs=$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo 2>/dev/null || echo "$cpus")
  ((memory_jobs < 1)) && memory_jobs=1
  ((cpus < memory_jobs)) && echo "$cpus" || echo "$memory_jobs"
}
