// FileStore: processes that share a file, processes that are killed, and files that are not ours to use.
// What every store does is in store_contract_test.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/store_file.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <thread>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
namespace fs = std::filesystem;

class FileStoreTest : public testing::Test {
 protected:
  FileStoreOptions options(int rank = -1, int world_size = -1) const {
    return {.path = path_, .job_id = "a job", .rank = rank, .world_size = world_size};
  }
  void expect_refusal(ErrorCode code, const FileStoreOptions& options, const std::vector<std::string>& parts) const {
    const std::string text = text_of(code, [&] { FileStore(options, soon()); });
    expect_parts(text, {path_});
    expect_parts(text, parts);
  }
  std::string contents() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_file(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  }
  /// The bytes of a file with these keys in it.
  std::string file_with(int keys) const {
    FileStore store(options(), soon());
    for (int i = 0; i < keys; ++i) store.set("key" + std::to_string(i), "value", soon());
    return contents();
  }

  tutti::test::Watchdog watchdog_;
  TemporaryFolder folder_;
  std::string path_ = folder_.file("store");
};

TEST_F(FileStoreTest, ProcessesShareKeys) {
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < 4; ++rank) {
    children.push_back(std::make_unique<Child>([&, rank] {
      FileStore store(options(rank, 4), soon());
      for (int i = 0; i < 200; ++i) store.add("sum", 1, soon());
      store.set("rank" + std::to_string(rank), std::to_string(rank), soon());
      const auto all = store.multi_get(keys({"rank0", "rank1", "rank2", "rank3"}), soon());
      if (all != keys({"0", "1", "2", "3"})) throw std::runtime_error("wrong values");
      if (store.get("sum", soon()) != "800") throw std::runtime_error("wrong sum");
      store.add("seen", 1, soon());
      while (store.get("seen", soon()) != "4") ::usleep(1000);  // nobody leaves before all have looked
    }));
  }
  for (const auto& child : children) EXPECT_EQ(child->end(), 0);
  EXPECT_FALSE(fs::exists(path_)) << "the last rank to leave takes the file away";
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(FileStoreTest, FileStaysUntilTheLastRankHasLeft) {
  auto zero = std::make_unique<FileStore>(options(0, 2), soon());
  zero.reset();
  EXPECT_TRUE(fs::exists(path_)) << "rank 1 has not come yet";
  auto again = std::make_unique<FileStore>(options(0, 2), soon());  // the same process may come again
  auto one = std::make_unique<FileStore>(options(1, 2), soon());
  one.reset();
  again->set("still", "here", soon());
  EXPECT_TRUE(fs::exists(path_));
  again.reset();
  EXPECT_FALSE(fs::exists(path_));
  FileStore fresh(options(0, 2), soon());
  EXPECT_FALSE(fresh.check(keys({"still"}), soon()));
}

TEST_F(FileStoreTest, WhoComesWhileTheLastOnesLeaveIsNotLeftAlone) {
  constexpr int kRanks = 3, kRounds = 100;
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    children.push_back(std::make_unique<Child>([&, rank] {
      for (int round = 0; round < kRounds; ++round) {
        FileStore store(options(rank, kRanks), soon());
        const std::string name = "round" + std::to_string(round);
        if (store.add(name, 1, soon()) == kRanks) store.set(name + "/done", "", soon());
        store.wait(std::vector<std::string>{name + "/done"}, soon());
      }
    }));
  }
  for (const auto& child : children) EXPECT_EQ(child->end(), 0);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(FileStoreTest, StoresOfOneProcessSeeEachOther) {
  FileStore left(options(), soon()), right(options(), soon());
  std::string got;
  std::thread waiter([&] { got = right.get("signal", soon()); });
  left.set("signal", "now", soon());
  waiter.join();
  EXPECT_EQ(got, "now");
  EXPECT_TRUE(right.delete_key("signal", soon()));
  EXPECT_FALSE(left.check(keys({"signal"}), soon()));
}

TEST_F(FileStoreTest, RequestsThatChangeNothingLeaveNoRecord) {
  FileStore store(options(), soon());
  store.set("k", "v", soon());
  const auto size = fs::file_size(path_);
  EXPECT_EQ(store.compare_set("k", "another", "w", soon()), "v");
  EXPECT_FALSE(store.delete_key("absent", soon()));
  text_of(ErrorCode::InvalidArgument, [&] { store.add("k", 1, soon()); });
  EXPECT_EQ(fs::file_size(path_), size);
}

TEST_F(FileStoreTest, EveryKindOfRequestIsReadBackByLaterStores) {
  FileStore store(options(), soon()), reader(options(), soon());
  store.multi_set(keys({"a", "b"}), keys({"1", "2"}), soon());
  store.add("a", 41, soon());
  EXPECT_EQ(reader.get("a", soon()), "42");
  store.append("b", "3", soon());
  store.compare_set("c", "", "second", soon());
  store.set("d", "", soon());
  store.delete_key("d", soon());
  FileStore later(options(), soon());
  EXPECT_EQ(later.multi_get(keys({"a", "b", "c"}), soon()), keys({"42", "23", "second"}));
  EXPECT_FALSE(reader.check(keys({"d"}), soon()));
}

TEST_F(FileStoreTest, WriterThatIsKilledHasWrittenNothing) {
  FileStore store(options(), soon());
  store.set("k", "v", soon());
  // What a process leaves that dies after its record and before the header says that it counts.
  std::ofstream(path_, std::ios::binary | std::ios::app) << "half of a record";
  EXPECT_EQ(FileStore(options(), soon()).get("k", soon()), "v");
  store.append("k", "w", soon());
  EXPECT_EQ(FileStore(options(), soon()).get("k", soon()), "vw");
}

TEST_F(FileStoreTest, ProcessesMayBeKilledAtAnyMoment) {
  FileStore store(options(), soon());
  for (std::int64_t round = 0, n = 0; round < 20; ++round) {
    Child hammer([&] {
      FileStore own(options(), soon());
      own.set("child", std::to_string(::getpid()), soon());
      for (int i = 0;; ++i) {
        const std::int64_t next = own.add("n", 1, soon());
        const std::vector<std::string> values = {std::string(5'000, static_cast<char>('a' + i % 26)),
                                                 std::to_string(next)};
        own.multi_set(keys({"long", "copy of n"}), values, soon());
      }
    });
    const std::string pid = std::to_string(hammer.pid());
    while (!store.check(keys({"child"}), soon()) || store.get("child", soon()) != pid) std::this_thread::yield();
    while (store.add("n", 0, soon()) < n + 50 + 10 * round) std::this_thread::yield();
    hammer.end(SIGKILL);
    FileStore fresh(options(), soon());  // reads all of it
    n = fresh.add("n", 0, soon());
    const std::string text = fresh.get("long", soon());
    EXPECT_EQ(text, std::string(5'000, text.at(0)));
    const std::int64_t copy = std::stoll(fresh.get("copy of n", soon()));
    EXPECT_TRUE(copy == n || copy == n - 1) << copy << " and " << n;
    EXPECT_EQ(store.get("long", soon()), text);
  }
}

TEST_F(FileStoreTest, FrozenHolderOfTheLockIsATimeoutThatNamesTheFile) {
  FileStore store(options(), soon());
  Socket holder(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct flock request {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(holder.get(), F_OFD_SETLK, &request), 0);
  expect_error(ErrorCode::Timeout, {"set \"k\": timed out after 0.", path_}, [&] { store.set("k", "v", in_ms(20)); });
  text_of(ErrorCode::Timeout, [&] { FileStore(options(), in_ms(20)); });
  holder.close();
  EXPECT_EQ(store.num_keys(soon()), 0);
}

TEST_F(FileStoreTest, ForkedChildIsToldToMakeItsOwn) {
  FileStore store(options(0, 1), soon());
  Child child([&] { expect_error(ErrorCode::InvalidArgument, {"forked"}, [&] { store.set("k", "v", soon()); }); });
  EXPECT_EQ(child.end(), 0);
  store.set("k", "parent", soon());
  EXPECT_EQ(store.get("k", soon()), "parent");
}

TEST_F(FileStoreTest, RankThatDiesIsLostAndOneThatLeavesIsNot) {
  FileStore watcher(options(0, 3), soon());
  Child dies([&] {
    FileStore store(options(1, 3), soon());
    store.set("here", "", soon());
    for (;;) ::pause();
  });
  watcher.get("here", soon());
  { FileStore leaves(options(2, 3), soon()); }
  EXPECT_FALSE(watcher.check(keys({"tutti/lost"}), soon()));
  EXPECT_FALSE(watcher.check(keys({"tutti/lost/1"}), soon()));
  const std::string pid = std::to_string(dies.pid());
  dies.end(SIGKILL);
  const std::string text = watcher.get("tutti/lost/1", soon());
  expect_parts(text, {"rank 1 (pid " + pid + ", host ", "is gone: its process has ended without a goodbye"});
  EXPECT_EQ(watcher.get("tutti/lost", soon()), "1");
  EXPECT_FALSE(watcher.check(keys({"tutti/lost/0"}), soon()));
  EXPECT_FALSE(watcher.check(keys({"tutti/lost/2"}), soon()));
}

TEST_F(FileStoreTest, OneKeyTellsOfAnyLostRank) {
  FileStore watcher(options(0, 2), soon());
  Child dies([&] {
    FileStore store(options(1, 2), soon());
    ::_exit(0);
  });
  ASSERT_EQ(dies.end(), 0);
  EXPECT_TRUE(watcher.check(keys({"tutti/lost"}), soon()));
  EXPECT_EQ(watcher.get("tutti/lost", soon()), "1");
}

// --- Files that are not ours to use ---------------------------------------------------------------------------------

TEST_F(FileStoreTest, FileThatAnEarlierRunLeftIsStale) {
  Child earlier([&] {
    FileStore store(options(1, 2), soon());
    ::_exit(0);  // without a goodbye
  });
  const pid_t pid = earlier.pid();
  ASSERT_EQ(earlier.end(), 0);
  const std::string before = contents();
  expect_refusal(ErrorCode::Unauthorized, options(1, 2),
                 {"is stale: rank 1 has joined it already, as pid " + std::to_string(pid),
                  "which has ended; this is pid", "remove it"});
  EXPECT_EQ(contents(), before);
}

TEST_F(FileStoreTest, FileOfAnotherJobIsStale) {
  FileStore other(options(0, 2), soon());
  FileStoreOptions mine = options(0, 2);
  mine.job_id = "the next job";
  expect_refusal(ErrorCode::Unauthorized, mine,
                 {"is stale, or another job's: it is of job \"a job\", begun 20", "pid " + std::to_string(::getpid()),
                  "this is job \"the next job\"", "name another path"});
}

TEST_F(FileStoreTest, FileOfAnotherWorldIsRefused) {
  FileStore other(options(0, 2), soon());
  expect_refusal(ErrorCode::Unauthorized, options(1, 3), {"of a world of 2 ranks", "belongs to a world of 3"});
}

TEST_F(FileStoreTest, HalfWrittenFilesAreToldWithWhatTheyLack) {
  const std::string whole = file_with(3);
  const auto expect_half_written = [&](const std::string& bytes, const std::string& found) {
    write_file(bytes);
    expect_refusal(ErrorCode::Protocol, options(), {"is half-written: ", found, "Remove it and start the job again"});
    EXPECT_EQ(contents(), bytes) << "the file was changed";
  };
  expect_half_written("", "it is empty");
  expect_half_written(whole.substr(0, 3), "it ends after 3 of 256 bytes of its header");
  expect_half_written(whole.substr(0, 255), "it ends after 255 of 256 bytes");
  expect_half_written(whole.substr(0, whole.size() - 1),
                      "should reach to byte " + std::to_string(whole.size()) + ", but it has");
}

TEST_F(FileStoreTest, EveryFlippedBitOfARecordIsNoticed) {
  const std::string whole = file_with(2);
  for (std::size_t at = sizeof(StoreFileHeader); at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_file(bytes);
    FileStore store(options(), soon());
    expect_error(ErrorCode::Protocol,
                 {"get \"key0\": the store file " + path_ + " is half-written: the record at byte "},
                 [&] { store.get("key0", soon()); });
  }
}

TEST_F(FileStoreTest, ForeignFilesAreNamedByTheirFirstBytesAndLeftAlone) {
  write_file("#!/bin/sh\necho precious\n");
  expect_refusal(ErrorCode::Protocol, options(),
                 {"is foreign: it begins with 23 21 2f", "#!/bin/sh", "Name another path"});
  EXPECT_EQ(contents(), "#!/bin/sh\necho precious\n");

  fs::remove(path_);
  std::string later = file_with(0);
  later[8] = 7;
  write_file(later);
  expect_refusal(ErrorCode::Protocol, options(), {"is foreign: it has version 7 of the format"});

  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_refusal(ErrorCode::Protocol, options(), {"it is no regular file"});

  fs::remove(path_);
  fs::create_symlink("elsewhere", path_);
  expect_refusal(ErrorCode::Protocol, options(), {"symbolic link"});
}

TEST_F(FileStoreTest, FileThatOthersMayWriteIsExposed) {
  write_file(file_with(1));
  ASSERT_EQ(::chmod(path_.c_str(), 0620), 0);
  expect_refusal(ErrorCode::Unauthorized, options(), {"is exposed: others may read or write it", "chmod 600"});
}

TEST_F(FileStoreTest, MissingFolderIsAnErrorOfTheSystem) {
  FileStoreOptions nowhere = options();
  nowhere.path = folder_.file("no/such/store");
  expect_error(ErrorCode::System, {nowhere.path, "No such file or directory"}, [&] { FileStore(nowhere, soon()); });
  nowhere.path = "";
  text_of(ErrorCode::InvalidArgument, [&] { FileStore(nowhere, soon()); });
}

TEST_F(FileStoreTest, FolderHoldsAFileForEachJob) {
  FileStoreOptions first = options(), second = options();
  first.path = second.path = folder_.path();
  second.job_id = "../another job";
  FileStore a(first, soon()), b(second, soon());
  a.set("k", "a", soon());
  EXPECT_FALSE(b.check(keys({"k"}), soon()));
  EXPECT_EQ(a.path(), folder_.file("tutti-a_job.store"));
  EXPECT_EQ(b.path(), folder_.file("tutti-___another_job.store"));
}

// --- The format -----------------------------------------------------------------------------------------------------

TEST(StoreFileFormat, HeaderHasTheDocumentedBytes) {
  StoreFileHeader header{.world_size = 4,
                         .pid = 0x01020304,
                         .created = 0x65000000,
                         .job = 0x7d68'19ce'c1ee'a837,
                         .committed = 300,
                         .host = {'n', 'o', 'd', 'e', '7'}};
  EXPECT_EQ(quote_bytes(std::as_bytes(std::span(&header, 1)), 72).substr(0, 72 * 3),
            "89 54 55 54 54 49 46 53 03 00 00 00 04 00 00 00 04 03 02 01 00 00 00 00 00 00 00 65 00 00 00 00 "
            "37 a8 ee c1 ce 19 68 7d 2c 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
            "6e 6f 64 65 37 00 00 00 ");
}

}  // namespace
}  // namespace tutti::comm
