// Environments as launchers were seen to give them (Slurm 22.05, Open MPI 4.1, MPICH 4.0), or as their documentation
// has them, cut down to the variables that could mislead.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/world.h>

#include <sstream>
#include <utility>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using test::expect_error;
using test::expect_parts;

/// "A=1 B=x": values hold no spaces.
Environment environment_of(const std::string& text) {
  test::Variables variables{{"TUTTI_JOB_SECRET", "hush"}, {"HOME", "/home/u"}};
  std::istringstream in(text);
  for (std::string word; in >> word;) variables[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return test::environment_of(std::move(variables));
}

World world_of(const std::string& text, const WorldOptions& options = {}) {
  return World::detect(options, environment_of(text));
}

std::string refusal(const std::string& text, const WorldOptions& options = {}) {
  const std::string refused = test::text_of(ErrorCode::InvalidArgument, [&] { world_of(text, options); });
  test::expect_absent(refused, {"hush"});
  return refused;
}

// srun -N 2 -n 3 within salloc -N 3 -n 6: the job's numbers beside the step's.
const std::string kSlurmStep =
    "SLURM_CLUSTER_NAME=c SLURM_JOB_ID=5 SLURM_JOBID=5 SLURM_STEP_ID=1 SLURM_STEPID=1 SLURM_PROCID=2 SLURM_LOCALID=0 "
    "SLURM_NODEID=1 SLURM_GTIDS=2 SLURM_NTASKS=6 SLURM_NPROCS=6 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=2 "
    "SLURM_STEP_TASKS_PER_NODE=2,1 SLURM_TASKS_PER_NODE=4,1(x2) SLURM_JOB_NODELIST=n[1-3] SLURM_STEP_NODELIST=n[1-2] "
    "SLURM_LAUNCH_NODE_IPADDR=127.0.0.1 SLURMD_NODENAME=n2 ";
// The same job's own script, or salloc's shell with the interactive step of newer versions.
const std::string kSlurmBatch =
    "SLURM_JOB_ID=6 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_GTIDS=0 SLURM_NTASKS=6 SLURM_NPROCS=6 "
    "SLURM_TASKS_PER_NODE=2(x3) ";
const std::string kOpenMpi4 =
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
    "OMPI_COMM_WORLD_NODE_RANK=1 OMPI_UNIVERSE_SIZE=6 PMIX_NAMESPACE=839712769 PMIX_RANK=3 OMPI_MCA_ess_base_vpid=3 "
    "OMPI_MCA_orte_precondition_transports=0c77-5a96 ";
const std::string kOpenMpi5 =
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
    "OMPI_COMM_WORLD_NODE_RANK=0 OMPI_UNIVERSE_SIZE=8 PMIX_NAMESPACE=prterun-head-4711@1 PMIX_RANK=1 PRTE_LAUNCHED=1 ";
const std::string kHydra = "HYDI_CONTROL_FD=7 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_FD=14 PMI_RANK=2 PMI_SIZE=4 ";
const std::string kHydraByPort =
    "MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_PORT=head:4711 PMI_ID=2 PMI_RANK=2 PMI_SIZE=4 ";
const std::string kIntel =
    "I_MPI_HYDRA_HOST_FILE=hosts I_MPI_MPIRUN=mpirun PMI_FD=9 PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1 "
    "MPI_LOCALNRANKS=4 ";
const std::string kCray =
    "PALS_APID=1d4c PALS_RANKID=5 PALS_NODEID=1 PALS_LOCAL_RANKID=1 PMI_RANK=5 PMI_SIZE=8 PMI_LOCAL_RANK=1 "
    "PMI_LOCAL_SIZE=4 PBS_JOBID=12.pbs PBS_NODEFILE=/var/spool/x ";
const std::string kPmi = "PMI_RANK=1 PMI_SIZE=2 PMI_JOBID=77.0 ";

struct Recorded {
  const char* name;
  std::string variables;
  int rank, world_size, local_rank, local_world_size;
  std::string meeting_file;  // in /home/u/.config/tutti/meet
  int pmi_descriptor;
  std::string detected_from;  // its beginning
};

void PrintTo(const Recorded& recorded, std::ostream* out) { *out << recorded.name; }

class RecordedEnvironment : public testing::TestWithParam<Recorded> {};

TEST_P(RecordedEnvironment, GivesThePlace) {
  const Recorded& expected = GetParam();
  const World world = world_of(expected.variables);
  EXPECT_EQ(world.rank, expected.rank);
  EXPECT_EQ(world.world_size, expected.world_size);
  EXPECT_EQ(world.local_rank, expected.local_rank);
  EXPECT_EQ(world.local_world_size, expected.local_world_size);
  const std::string folder = "/home/u/.config/tutti/meet";
  EXPECT_EQ(world.meeting_file, !expected.meeting_file.empty() ? folder + "/" + expected.meeting_file + ".meet"
                                : expected.pmi_descriptor >= 0 ? folder
                                                               : "");
  EXPECT_EQ(world.pmi_descriptor, expected.pmi_descriptor);
  EXPECT_EQ(world.detected_from.substr(0, expected.detected_from.size()), expected.detected_from);
  EXPECT_EQ(world.master_addr, "") << "an address was guessed";
}

INSTANTIATE_TEST_SUITE_P(
    All, RecordedEnvironment,
    testing::Values(
        Recorded{"slurm_step_on_fewer_nodes_than_the_job", kSlurmStep, 2, 3, 0, 1, "slurm-c-5-1", -1,
                 "Slurm step 5.1: SLURM_PROCID=2, SLURM_STEP_NUM_TASKS=3, SLURM_LOCALID=0"},
        // An arbitrary distribution sorts the node list; the list of tasks still tells.
        Recorded{"slurm_arbitrary_distribution",
                 "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=2 SLURM_GTIDS=0,2,4 "
                 "SLURM_STEP_NUM_TASKS=5 SLURM_STEP_TASKS_PER_NODE=1(x2),3 SLURM_STEP_NODELIST=n[1-3] "
                 "SLURM_DISTRIBUTION=arbitrary",
                 0, 5, 0, 3, "slurm-5-0", -1, "Slurm step 5.0: "},
        // srun -N1 -n2 a : -N2 -n3 b
        Recorded{"slurm_heterogeneous_step",
                 "SLURM_CLUSTER_NAME=c SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_HET_SIZE=2 SLURM_PROCID=4 SLURM_LOCALID=0 "
                 "SLURM_NODEID=2 SLURM_GTIDS=4 SLURM_STEP_NUM_TASKS=5 SLURM_NTASKS=5 SLURM_STEP_TASKS_PER_NODE=2(x2),1 "
                 "SLURM_JOB_ID_PACK_GROUP_0=1 SLURM_JOB_ID_PACK_GROUP_1=2",
                 4, 5, 0, 1, "slurm-c-1-0", -1, "Slurm step 1.0: "},
        Recorded{"slurm_job_that_was_requeued", kSlurmStep + "SLURM_RESTART_COUNT=2", 2, 3, 0, 1, "slurm-c-5-1-2", -1,
                 "Slurm step 5.1: "},
        // Slurm's own PMI server speaks PMI-2 over PMI_FD, which must not be taken for Hydra's.
        Recorded{"slurm_with_mpi_pmi2",
                 kSlurmStep + "PMI_FD=11 PMI_JOBID=5.1 PMI_RANK=2 PMI_SIZE=3 SLURM_MPI_TYPE=pmi2", 2, 3, 0, 1,
                 "slurm-c-5-1", -1, "Slurm step 5.1: "},
        Recorded{"slurm_with_mpi_pmix", kSlurmStep + "PMIX_RANK=2 PMIX_NAMESPACE=slurm.pmix.5.1", 2, 3, 0, 1,
                 "slurm-c-5-1", -1, "Slurm step 5.1: "},
        Recorded{"open_mpi_4", kOpenMpi4, 3, 4, 1, 2, "openmpi-839712769-0c77-5a96", -1,
                 "Open MPI: OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4, OMPI_COMM_WORLD_LOCAL_RANK=1, "
                 "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
        Recorded{"open_mpi_5", kOpenMpi5, 1, 2, 0, 1, "openmpi-prterun-head-4711@1", -1, "Open MPI: "},
        // mpirun's daemons are a Slurm step, whose variables the ranks inherit.
        Recorded{"open_mpi_in_a_slurm_job",
                 kOpenMpi4 + "SLURM_JOB_ID=5 SLURM_STEP_ID=1 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_GTIDS=0 "
                             "SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=1(x3) SLURM_NTASKS=3",
                 3, 4, 1, 2, "openmpi-839712769-0c77-5a96", -1, "Open MPI: "},
        Recorded{"hydra", kHydra, 2, 4, 1, 2, "", 14, "MPICH (Hydra): PMI_RANK=2, PMI_SIZE=4, MPI_LOCALRANKID=1"},
        Recorded{"hydra_by_port", kHydraByPort, 2, 4, 1, 2, "job-mpich-head_4711-0xb168b37947355639", -1,
                 "MPICH (Hydra): "},
        Recorded{
            "hydra_in_a_slurm_job",
            kHydra +
                "SLURM_JOB_ID=5 SLURM_STEP_ID=2 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_GTIDS=0 SLURM_NTASKS=6",
            2, 4, 1, 2, "", 14, "MPICH (Hydra): "},
        Recorded{"hydra_with_a_folder_to_meet_in_elsewhere", kHydraByPort + "TUTTI_JOB_ID=x", 2, 4, 1, 2,
                 "job-mpich-head_4711-x-0x48c8bf0b72aae823", -1, "MPICH (Hydra): "},
        Recorded{"intel_mpi", kIntel, 5, 8, 1, 4, "", 9, "Intel MPI: PMI_RANK=5, PMI_SIZE=8"},
        Recorded{"cray_pals_under_pbs", kCray, 5, 8, 1, 4, "cray-1d4c", -1, "Cray PALS: PALS_RANKID=5, PMI_SIZE=8"},
        Recorded{"pmi", kPmi, 1, 2, 0, 1, "pmi-77.0", -1, "PMI: PMI_RANK=1, PMI_SIZE=2"},
        // Not a place: one rank, at once, whatever the allocation has.
        Recorded{"batch_script_without_srun", kSlurmBatch, 0, 1, 0, 1, "", -1,
                 "nothing: one rank (Slurm job 6, but no step of it started this process (no SLURM_STEP_ID); of its "
                 "SLURM_NTASKS=6 tasks this is none"},
        Recorded{"salloc_shell", "SLURM_JOB_ID=5 SLURM_NTASKS=6 SLURM_NPROCS=6 SLURM_JOB_NAME=interactive", 0, 1, 0, 1,
                 "", -1, "nothing: one rank (Slurm job 5"},
        Recorded{"salloc_shell_as_a_step", kSlurmBatch + "SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1", 0, 1, 0, 1,
                 "", -1, "nothing: one rank (Slurm job 6"},
        Recorded{"shell_by_srun_pty",
                 "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=6 "
                 "SLURM_GTIDS=0",
                 0, 1, 0, 1, "", -1, "Slurm step 5.0: "},
        Recorded{"pbs_job_script",
                 "PBS_JOBID=12.pbs PBS_NODEFILE=/var/spool/x PBS_TASKNUM=1 PBS_NODENUM=0 PBS_VNODENUM=0 NCPUS=4", 0, 1,
                 0, 1, "", -1, "nothing: one rank (PBS job 12.pbs: PBS starts one process"}),
    [](const testing::TestParamInfo<Recorded>& test) { return test.param.name; });

TEST(Launchers, TuttiRunInsideAnAllocationWins) {
  const std::string own = " RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=4000 ";
  for (const std::string& outer : {kSlurmStep, kSlurmBatch, kOpenMpi4, kHydra, kPmi}) {
    const World world = world_of(outer + own);
    EXPECT_EQ(world.rank, 1);
    EXPECT_EQ(world.world_size, 2);
    EXPECT_EQ(world.master_addr, "10.0.0.1");
    EXPECT_EQ(world.meeting_file, "");
    EXPECT_EQ(world.pmi_descriptor, -1);
  }
}

TEST(Launchers, AddressOfTheJobScriptIsTakenAsItIs) {
  const World world = world_of(kSlurmStep + "MASTER_ADDR=n1 MASTER_PORT=29500");
  EXPECT_EQ(world.rank, 2);
  EXPECT_EQ(world.master_addr, "n1");
  EXPECT_EQ(world.master_port, 29500);
  EXPECT_EQ(world.meeting_file, "");
  test::expect_parts(world.detected_from, {"MASTER_ADDR=\"n1\""});
  test::expect_parts(refusal(kSlurmStep + "MASTER_ADDR=n1"), {"missing: MASTER_PORT"});
  EXPECT_EQ(world_of(kSlurmStep + "TUTTI_STORE=file:///shared").store_file, "/shared");
}

TEST(Launchers, NamedLauncherAloneIsAsked) {
  const std::string both = kOpenMpi4 + kSlurmStep;
  EXPECT_EQ(world_of(both, {.launcher = "slurm"}).rank, 2);
  EXPECT_EQ(world_of(both + "TUTTI_LAUNCHER=slurm").rank, 2);
  EXPECT_EQ(world_of(both + "TUTTI_LAUNCHER=openmpi").rank, 3);
  EXPECT_EQ(world_of(both, {.launcher = "none"}).world_size, 1);
  EXPECT_EQ(world_of(both + "RANK=1 WORLD_SIZE=2 TUTTI_LAUNCHER=none").world_size, 1);
  test::expect_parts(world_of(both, {.launcher = "none"}).detected_from, {"the launcher is said to be none"});
  test::expect_parts(refusal("", {.launcher = "env"}), {"missing: RANK, WORLD_SIZE"});
  test::expect_parts(refusal(kSlurmStep, {.launcher = "openmpi"}), {"there is no OMPI_COMM_WORLD_RANK"});
  test::expect_parts(refusal(kSlurmBatch, {.launcher = "slurm"}), {"no SLURM_STEP_ID"});
  const std::string unknown = refusal("TUTTI_LAUNCHER=slrum");
  test::expect_parts(unknown, {"\"slrum\", which is no launcher; known are auto, none, env, openmpi"});
  test::expect_parts(refusal("TUTTI_LAUNCHER=slurm", {.launcher = "none"}), {"drop one of the two"});
}

TEST(Launchers, HalfSetAndContradictoryVariablesAreNamed) {
  test::expect_parts(refusal("OMPI_COMM_WORLD_RANK=1"), {"OMPI_COMM_WORLD_RANK=1, but no OMPI_COMM_WORLD_SIZE"});
  test::expect_parts(refusal("PMI_SIZE=4"), {"but no PMI_RANK"});
  test::expect_parts(refusal("SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2"),
                     {"SLURM_JOB_ID=5, SLURM_STEP_NUM_TASKS=2, but no SLURM_PROCID"});
  test::expect_parts(refusal("SLURM_JOB_ID=5 SLURM_STEP_ID=0"), {"SLURM_JOB_ID=5, but no SLURM_PROCID"});
  EXPECT_EQ(world_of(kSlurmStep + "SLURM_JOB_ID=").world_size, 1) << "an empty variable is not set";
  test::expect_parts(refusal("OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4"),
                     {"rank 4 does not exist in a world of 4"});
  test::expect_parts(refusal("OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=4"),
                     {"OMPI_COMM_WORLD_RANK=\"x\" is no whole number"});
  test::expect_parts(refusal("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
                             "OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_NAMESPACE=1"),
                     {"LOCAL_RANK 1 does not exist among 1 local ranks"});
}

TEST(Launchers, JobWithoutANameIsNotMetByGuessing) {
  const std::string nameless = "PMI_RANK=1 PMI_SIZE=2 ";
  test::expect_parts(refusal(nameless), {"set TUTTI_JOB_ID"});
  EXPECT_EQ(world_of(nameless + "TUTTI_JOB_ID=mine").meeting_file, "/home/u/.config/tutti/meet/mine.meet");
}

TEST(Launchers, RanksByHandMayMeetInAFolder) {
  const std::string place = "RANK=1 WORLD_SIZE=3 TUTTI_MEET_DIR=/shared ";
  EXPECT_EQ(world_of(place + "PBS_JOBID=12.pbs").meeting_file, "/shared/PBS_JOBID-12.pbs.meet");
  EXPECT_EQ(world_of(place + "TUTTI_JOB_ID=a").meeting_file, "/shared/TUTTI_JOB_ID-a.meet");
  EXPECT_EQ(world_of(place + "TUTTI_JOB_ID=a MASTER_ADDR=h MASTER_PORT=1").meeting_file, "");
  test::expect_parts(refusal(place), {"set TUTTI_JOB_ID"});
}

TEST(Launchers, FoldersToMeetIn) {
  EXPECT_EQ(world_of(kSlurmStep + "TUTTI_MEET_DIR=/scratch/m").meeting_file, "/scratch/m/slurm-c-5-1.meet");
  EXPECT_EQ(world_of(kHydraByPort + "PMI_FD=4").pmi_descriptor, -1) << "the job has a name";
  EXPECT_EQ(world_of(kHydra + "TUTTI_MEET_DIR=/m TUTTI_JOB_ID=a").pmi_descriptor, -1) << "it was named by hand";
  EXPECT_EQ(world_of(kHydra + "TUTTI_MEET_DIR=/m TUTTI_JOB_ID=a").meeting_file, "/m/a.meet");
  EXPECT_EQ(world_of(kHydra + "TUTTI_MEET_DIR=/m").meeting_file, "/m");
  test::expect_parts(refusal(kSlurmStep + "TUTTI_MEET_DIR=relative"), {"TUTTI_MEET_DIR=\"relative\""});
  const Environment homeless = [](const std::string&) { return std::nullopt; };
  EXPECT_THROW(meeting_path("a", homeless), Error);
  const Environment home = environment_of("");
  EXPECT_NE(meeting_path("a/b", home), meeting_path("a_b", home));
  test::expect_absent(meeting_path("../x", home), {"../"});
  EXPECT_LT(meeting_path(std::string(5000, 'a'), home).size(), 200u);
}

TEST(Launchers, JobIdDoesNotMergeStepsOfOneJob) {
  // Two sruns at once in one allocation, with TUTTI_JOB_ID exported by the job script.
  const World first = world_of(kSlurmStep + "TUTTI_JOB_ID=lab");
  EXPECT_EQ(first.job_id, "lab");
  EXPECT_EQ(first.meeting_file, "/home/u/.config/tutti/meet/slurm-c-5-1-lab.meet");
  EXPECT_EQ(world_of(kSlurmStep).job_id, "slurm-c-5-1");
}

TEST(Launchers, CpusOfEachTask) {
  EXPECT_EQ(world_of(kSlurmStep + "SLURM_CPUS_PER_TASK=3").cpus_per_rank, 3);
  EXPECT_EQ(world_of(kSlurmStep).cpus_per_rank, 0);
  EXPECT_EQ(world_of(kSlurmStep + "SLURM_CPUS_PER_TASK=many").cpus_per_rank, 0);
}

TEST(Launchers, OneRankWhereSeveralWereAskedForIsAWarning) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  set_log_sink([&](LogLevel level, std::string_view line) { lines.emplace_back(level, line); });
  world_of(kSlurmBatch);
  world_of("PBS_JOBID=1.pbs");
  world_of("");
  set_log_sink({});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].first, LogLevel::Warn);
  test::expect_parts(lines[0].second, {"one rank: Slurm job 6", "start ranks by srun, or by `tutti run`"});
  EXPECT_EQ(lines[1].first, LogLevel::Info);
}

}  // namespace
}  // namespace tutti::comm
