#!/usr/bin/env python3
"""What users of other launchers complain of, what holds here instead, and the tests that show it: each of them exists.

    tests/tools/complaints_test.py SOURCE

Numbers are those of the project's collection of others' issues: 1 to 24 are start-up, addresses and ports, 50 to 60 the
launcher, its processes and its output.
"""

import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else ".")

# Number, what holds here, the tests of it: `Suite.Name` of GoogleTest, or a method of a Python test.
COMPLAINTS = (
    (1, "No host tells another one a loopback address",
     ["test_a_host_that_calls_itself_127_0_1_1",
      "ChooseAddresses.AHostThatReachedItsStoreByLoopbackTellsAnotherAddress"]),
    (2, "A failed connection names both ends, the attempts and errno",
     ["TcpConnect.ARefusedConnectionNamesThePeer", "Dialer.NamesAllAttemptsWhereNoneWorks",
      "test_a_closed_port_is_named_with_both_ends_and_attempts"]),
    (3, "Loopback is never a silent fall-back between hosts",
     ["RankAddresses.LoopbackIsEnoughForProcessesOfOneNetworkOnly",
      "RankAddresses.WithNoOtherThanOneOfTwoHostsBothRanksAreNamed"]),
    (4, "`--iface` chooses the interface, and an unknown one gets a list of those that exist",
     ["ChooseAddresses.ByNamePatternAddressAndNetwork",
      "ChooseAddresses.RefusesWhatIsNotThereOrDownWithAListOfWhatIs"]),
    (5, "A slow interface is warned of where a faster one is passed over",
     ["ChooseAddresses.WarnsWhereAFasterInterfaceIsPassedOver"]),
    (6, "A taken port names its holder",
     ["LauncherEnd.ATakenPortIsNamed", "TcpStoreServer.TakenPortNamesItsHolder"]),
    (7, "Every setting names its source, and a contradiction is named",
     ["RunOptions.VerboseTellsEverySettingAndItsSource", "RunOptions.AnExportedMasterPortThatIsNotUsedIsNamed",
      "RunOptions.TheCommandLineWinsOverAVariableAndSaysSo", "World.OptionAgainstEnvironmentShowsBoth"]),
    (8, "Jobs at one endpoint stay apart",
     ["TcpStore.WrongSecretJobOrWorldIsUnauthorizedAtOnce",
      "RunRendezvous.AnotherJobAtTheSameEndpointIsNotJoined"]),
    (9, "A port is bound before it is told",
     ["Launcher.GivesEachRankTorchrunsVariables", "Launcher.WithoutAStoreTheMasterPortIsFreeForRankZero"]),
    (10, "One listener a process",
     ["LargeWorld.FormsAndReducesInTimeOverTcp"]),
    (11, "Only the connections that algorithms need are opened, and a rank that never connects is named",
     ["LargeWorld.OpensOnlyTheConnectionsThatItsAlgorithmsUse",
      "Fault.ARankThatNeverConnectsIsNamedWhenTheGroupDoesNotForm"]),
    (12, "Descriptors are counted, and the limit raised or both numbers named",
     ["StoreDescriptors.SoftLimitIsRaisedForTheWorld",
      "StoreDescriptors.WorldThatNeedsTooManyIsRefusedWithBothNumbers"]),
    (13, "Accept queues stand a crowd, and the doctor warns of short ones",
     ["StoreScale.CrowdPassesABarrier", "TcpStore.ServerThatStartsLateIsFound",
      "Doctor.FewPortsAndAShortQueueAreWarnedOf"]),
    (14, "A store serves large worlds; there is no tree of stores",
     ["StoreScale.RequestsTakeLittleOfTheServersTime"]),
    (15, "An agent learns whether it is the host by binding the endpoint",
     ["RunRendezvous.WhicheverAgentCanBindTheEndpointCoordinates"]),
    (16, "Nothing needs a name service",
     ["test_no_name_service", "TcpStore.NameServiceThatDoesNotAnswerEndsAtTheDeadline"]),
    (17, "Several interfaces are tried beside each other, and the one that works is kept",
     ["Dialer.TriesTheNextAddressBesideOneThatIsSilent", "Dialer.KeepsToWhatHasWorked"]),
    (18, "Either family of addresses does",
     ["TcpStore.LocalhostReachesAServerOnIpv4LoopbackOnly", "TcpStore.AllInterfacesTakeIpv4AndIpv6",
      "test_only_ipv6"]),
    (19, "Bridges of containers and addresses that two hosts have are passed over",
     ["test_bridges_of_containers_are_passed_over", "RankAddresses.AnAddressOfTwoHostsIsTakenOutOnAll"]),
    (20, "`tutti doctor` looks between ranks, and a remote command that hangs is named",
     ["DoctorCommand.RanksLookAtWhatIsBetweenThem", "RunRemote.ARemoteCommandThatHangsIsNamedAndEnded"]),
    (21, "Files that an earlier run left are found, and refused or replaced",
     ["FileStoreTest.FileThatAnEarlierRunLeftIsStale", "FileStoreTest.FileOfAnotherJobIsStale",
      "MeetingFileTest.WhatAnEarlierRunLeftIsReplaced", "MeetingFileTest.ForeignContentIsRefusedAndLeftAsItIs"]),
    (22, "Rank 0 publishes its address; nothing derives it",
     ["RecordedEnvironment.GivesThePlace", "Launchers.JobWithoutANameIsNotMetByGuessing"]),
    (23, "Launchers' variables count only if they are consistent",
     ["Launchers.HalfSetAndContradictoryVariablesAreNamed", "Launchers.TuttiRunInsideAnAllocationWins",
      "Launchers.NamedLauncherAloneIsAsked"]),
    (24, "No port is derived from a job's number",
     ["MeetingFileTest.OthersReadWhatRank0Published", "Launchers.AddressOfTheJobScriptIsTakenAsItIs"]),
    (50, "The first cause is named: status, signal, memory, last lines",
     ["LauncherEnd.AFailureIsNamedWithStatusAndLastLines",
      "Evidence.ARankThatTakesMoreMemoryThanItsGroupHasIsKilledForThat",
      "LauncherEnd.WhatTheOthersSaidLastIsQuoted", "RunNodes.BothAgentsNameTheFirstCauseAndEndWithItsStatus"]),
    (51, "A killed launcher leaves no process",
     ["LauncherEnd.AKilledLauncherLeavesNothingWithinASecond", "RunNodes.AKilledAgentIsNamedAndNothingIsLeft",
      "RunNodes.AKilledCoordinatorEndsTheOtherAgentsAtOnce"]),
    (52, "SIGTERM is followed by SIGKILL",
     ["LauncherEnd.ARankThatIgnoresSigtermIsKilledAfterTheGrace"]),
    (53, "`--grace` gives time for a checkpoint",
     ["LauncherEnd.RanksHaveTimeToWriteACheckpointAfterSigterm"]),
    (54, "All signals are forwarded, on all nodes",
     ["LauncherEnd.EverySignalThatOthersSendIsForwarded", "RunNodes.UserSignalsToTheCoordinatorReachAllNodes",
      "CheckpointSignals.SigusrWritesACheckpointAndTrainingGoesOn"]),
    (55, "All ranks stop after the same step",
     ["CheckpointerTest.OneRankThatIsAskedToStopStopsAllAfterTheSameStep",
      "CheckpointSignals.SigtermToOneRankEndsAllRanksCleanly"]),
    (56, "Lines stay whole, have labels with the host, and can be filtered",
     ["Launcher.AThousandLinesOfFourRanksStayWholeAndInOrder", "RunNodes.LinesBeginWithHostAndRank",
      "RunOutput.FiltersChooseWhatIsShown"]),
    (57, "A label of the rank alone can be had, and one rank alone has none",
     ["RunOutput.ALabelThatIsAskedForNamesRankOrHost", "Launcher.OneRankHasNoLabelAndItsBytesAreUntouched"]),
    (58, "A slow reader of a non-blocking pipe gets everything",
     ["Launcher.ASlowReaderOnANonBlockingPipeGetsEverything"]),
    (59, "Threads and pinning follow from CPUs and ranks, and are told",
     ["CpuPlan.RanksGetWholeCoresOfOneNode", "CpuPlan.TheSentenceSaysWhoHasWhat",
      "Pinning.RanksArePinnedToTheirShareAndToldSo", "Launcher.KeepsTheUsersOmpNumThreads"]),
    (60, "Survivors keep their processes when a rank is replaced",
     ["ElasticCommand.AKilledRankIsReplacedAtAnyMomentAndTheOthersKeepTheirProcesses",
      "CheckpointSignals.ALauncherThatRestartsGoesOnFromTheCheckpoint"]),
)


def tests():
    """Names of all tests, as the table writes them."""
    found = set()
    for file in (SOURCE / "tests").rglob("*_test.cc"):
        found.update(f"{suite}.{name}" for suite, name in
                     re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", file.read_text(), re.MULTILINE))
    for file in (SOURCE / "tests").rglob("*_test.py"):
        found.update(re.findall(r"def (test_\w+)\(", file.read_text()))
    return found


class Complaints(unittest.TestCase):
    def test_every_complaint_has_a_row(self):
        self.assertEqual([number for number, _, _ in COMPLAINTS], [*range(1, 25), *range(50, 61)])

    def test_every_row_names_tests_that_exist(self):
        known = tests()
        for number, _, named in COMPLAINTS:
            self.assertTrue(named, f"row {number} names no test")
            self.assertEqual([name for name in named if name not in known], [], f"row {number}")


if __name__ == "__main__":
    unittest.main()
