# What the scripts of this folder share: their options, a private folder, and the comparison of a run under a launcher with
# one by --nproc. Sourced; the script that sources it says what it is for.
#
#   checks_options "$@"          reads --tutti PROGRAM, --data DIR (MNIST), --epochs N, --only NAME, --short; sets $tutti,
#                                $data, $epochs, $only, $short, and $dir, a private folder that the script removes;
#                                --short: a few checks, on data of noise, which are made
#   checks_skip REASON           ends with status 77: ctest counts the test as skipped
#   check NAME WORLD COMMAND...  runs the command, in which {train} stands for `tutti train mnist ...`, and compares
#   check_output NAME TEXT COMMAND...  runs the command, which must succeed and print TEXT
#   checks_done                  prints the count, and ends with status 1 if a check has failed
# shellcheck shell=bash

checks_passed=0
checks_failed=0

checks_usage() {
  printf 'usage: %s --tutti PROGRAM (--data DIR | --short) [--epochs N] [--only NAME]\n' "${0##*/}" >&2
  exit 2
}

checks_skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}

checks_options() {
  tutti='' data='' epochs=1 only='' short=0
  while (($# > 0)); do
    case $1 in
      --tutti) tutti=$(realpath "${2:?}") && shift 2 ;;
      --data) data=$(realpath "${2:?}") && shift 2 ;;
      --epochs) epochs=${2:?} && shift 2 ;;
      --only) only=${2:?} && shift 2 ;;
      --short) short=1 && shift ;;
      *) checks_usage ;;
    esac
  done
  [[ -x $tutti ]] || checks_usage
  dir=$(mktemp -d)
  if ((short)); then
    data=$dir/mnist
    checks_small_data "$data"
  elif [[ ! -e $data/train-images-idx3-ubyte.gz && ! -e $data/train-images-idx3-ubyte ]]; then
    rm -rf "$dir"
    checks_skip "MNIST is not in '$data' (--data)"
  fi
  chmod 755 "$dir"
  export HOME=$dir/home # its job secret is made on first use
  mkdir "$HOME"
  local name
  for name in $(compgen -e); do # nothing of a launcher around us
    case $name in
      RANK | WORLD_SIZE | LOCAL_* | MASTER_* | TUTTI_* | SLURM_* | PMI* | OMPI_* | MPI_*) unset "$name" ;;
    esac
  done
}

checks_small_data() { # folder: 1,200 pictures to train on and 200 to test, of noise, in MNIST's form
  mkdir "$1" && python3 - "$1" <<'PYTHON'
import random, struct, sys
random.seed(1)
for name, count in (("train", 1200), ("t10k", 200)):
    with open(f"{sys.argv[1]}/{name}-images-idx3-ubyte", "wb") as images:
        images.write(struct.pack(">4i", 2051, count, 28, 28) + random.randbytes(count * 784))
    with open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte", "wb") as labels:
        labels.write(struct.pack(">2i", 2049, count) + bytes(random.randrange(10) for _ in range(count)))
PYTHON
}

checks_wanted() { # name, 1 if it is part of --short
  [[ -z $only || $1 == *"$only"* ]] && ((!short || ${2:-0}))
}

# accuracy and parameters of a report
checks_result() {
  python3 - "$1" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
print(report["final_test_accuracy"], report["parameter_sha256"])
PYTHON
}

checks_reference() { # world size: what --nproc gives, computed once
  local file=$dir/reference-$1.json
  if [[ ! -e $file ]]; then
    "$tutti" train mnist --data "$data" --epochs "$epochs" --threads 1 --nproc "$1" --json "$file" >"$dir/reference.log" 2>&1 || {
      echo "the reference run by --nproc $1 failed:" >&2
      cat "$dir/reference.log" >&2
      return 1
    }
  fi
  checks_result "$file"
}

checks_report() { # name, status, detail
  if (($2 == 0)); then
    checks_passed=$((checks_passed + 1))
    printf 'ok    %s  %s\n' "$1" "$3"
  else
    checks_failed=$((checks_failed + 1))
    printf 'FAIL  %s  %s\n' "$1" "$3"
    sed 's/^/      | /' "$dir/output" | tail -n 40
  fi
}

check() { # name, world size, command
  local name=$1 world=$2 report expected found word command=()
  shift 2
  report=$dir/report-${name//[^a-z0-9]/-}.json
  for word in "$@"; do
    if [[ $word == '{train}' ]]; then
      command+=("$tutti" train mnist --data "$data" --epochs "$epochs" --threads 1 --json "$report")
    else
      command+=("$word")
    fi
  done
  expected=$(checks_reference "$world") || {
    checks_failed=$((checks_failed + 1))
    return
  }
  if ! timeout 120 "${command[@]}" >"$dir/output" 2>&1 </dev/null; then
    checks_report "$name" 1 "the command failed: ${command[*]}"
    return
  fi
  found=$(checks_result "$report" 2>&1)
  if [[ $found == "$expected" ]]; then
    checks_report "$name" 0 "$world ranks, accuracy ${found%% *}, parameters ${found##* } as with --nproc"
  else
    checks_report "$name" 1 "accuracy and parameters are $found, but with --nproc $world $expected"
  fi
}

check_output() { # name, text, command
  local name=$1 text=$2
  shift 2
  if ! timeout 120 "$@" >"$dir/output" 2>&1 </dev/null; then
    checks_report "$name" 1 "the command failed: $*"
  elif ! grep -qF -- "$text" "$dir/output"; then
    checks_report "$name" 1 "this was not printed: $text"
  else
    checks_report "$name" 0 "printed: $text"
  fi
}

checks_done() {
  printf '%d checks passed, %d failed\n' "$checks_passed" "$checks_failed"
  exit $((checks_failed > 0))
}
