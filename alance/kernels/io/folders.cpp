// Listing of folders in the order of object stores, early write-back of new files to disk, and
// variables of the environment.
//
// Like pieces.cpp it belongs to the I/O half (`alance/io/disk/publish.py`).
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#if defined(_WIN32)
#include <filesystem>
#else
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#endif

#include "base/owned.hpp"

namespace alance {
namespace {

// Entry of a folder. The key is its name; that of a folder ends with `/`. Only files have a size.
struct Entry {
  std::string key;
  int64_t size = -1, modified_ns = 0;
  uint64_t inode = 0;

  bool operator<(const Entry& other) const { return key < other.key; }
};

// The first `most` entries with keys greater than `after`, as a heap while entries are added.
struct FirstEntries {
  // True if an entry with this name, or a key that begins with it, is not among the first ones.
  // Most names of a large folder end here, without a copy.
  bool is_behind(std::string_view name) const {
    return std::ssize(entries) >= most && (most <= 0 || name >= entries.front().key);
  }

  void add(Entry entry) {
    if (entry.key <= after || is_behind(entry.key)) return;
    if (std::ssize(entries) >= most) {
      std::pop_heap(entries.begin(), entries.end());
      entries.pop_back();
    }
    entries.push_back(std::move(entry));
    std::push_heap(entries.begin(), entries.end());
  }

  const std::string& after;
  const int64_t most;
  std::vector<Entry>& entries;
};

// The next function gets the first `most` entries with keys greater than `after`; it returns 0 or
// the system's error number.
#if defined(_WIN32)
int read_folder(const char* path, const std::string& after, int64_t most,
                std::vector<Entry>& entries) {
  std::error_code error;
  FirstEntries first{after, most, entries};
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::u8path(path), error)) {
    Entry entry{file.path().filename().u8string()};
    if (file.is_directory() && !file.is_symlink()) {
      entry.key += '/';
    } else if (file.is_regular_file()) {
      entry.size = static_cast<int64_t>(file.file_size());
      entry.modified_ns = file.last_write_time().time_since_epoch().count() * 100;
    }
    first.add(std::move(entry));
  }
  std::sort_heap(entries.begin(), entries.end());
  return error.value();
}
#else
bool is_folder(int folder, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat about;
  return fstatat(folder, entry.d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

int learn_file(int folder, Entry& entry) {
  struct stat about;
  if (fstatat(folder, entry.key.c_str(), &about, 0) != 0) return errno == ENOENT ? 0 : errno;
  if (!S_ISREG(about.st_mode)) return 0;
#if defined(__APPLE__)
  const timespec& modified = about.st_mtimespec;
#else
  const timespec& modified = about.st_mtim;
#endif
  entry.size = about.st_size;
  entry.modified_ns = int64_t{1'000'000'000} * modified.tv_sec + modified.tv_nsec;
  entry.inode = about.st_ino;
  return 0;
}

int read_folder(const char* path, const std::string& after, int64_t most,
                std::vector<Entry>& entries) {
  const std::unique_ptr<DIR, decltype(&closedir)> folder(opendir(path), &closedir);
  if (folder == nullptr) return errno;
  const int fd = dirfd(folder.get());
  FirstEntries first{after, most, entries};
  while (true) {
    errno = 0;
    const dirent* file = readdir(folder.get());
    if (file == nullptr) break;
    const std::string_view name = file->d_name;
    if (first.is_behind(name) || name == "." || name == "..") continue;
    Entry entry{std::string(name)};
    if (is_folder(fd, *file)) entry.key += '/';
    first.add(std::move(entry));
  }
  int status = errno;
  std::sort_heap(entries.begin(), entries.end());
  for (Entry& entry : entries)
    if (status == 0 && entry.key.back() != '/') status = learn_file(fd, entry);
  return status;
}
#endif

// Returns 0 or the system's error number, and (key, size, time of the last change in ns, inode) of
// the first `most` entries with keys greater than `after`.
nb::tuple list_folder(const nb::bytes& path, const nb::bytes& after, int64_t most) {
  std::vector<Entry> entries;
  int status;
  {
    nb::gil_scoped_release release;
    status = read_folder(path.c_str(), {after.c_str(), after.size()}, most, entries);
  }
  nb::list listed;
  for (const auto& [key, size, modified_ns, inode] : entries) {
    PyObject* name = PyUnicode_DecodeFSDefaultAndSize(key.data(), std::ssize(key));
    if (name == nullptr) throw nb::python_error();
    listed.append(nb::make_tuple(nb::steal(name), size, modified_ns, inode));
  }
  return nb::make_tuple(status, listed);
}

// Start the write-back of a file's dirty pages without waiting (Linux; elsewhere no effect). A
// later fsync reports errors.
void begin_sync([[maybe_unused]] int fd) {
#if defined(__linux__)
  nb::gil_scoped_release release;
  sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

// Text of each variable of the environment; None if it is not set.
nb::list environment(const std::vector<std::string>& names) {
  nb::list texts;
  for (const std::string& name : names) {
    const char* text = std::getenv(name.c_str());
    texts.append(text == nullptr ? nb::none() : nb::steal(PyUnicode_DecodeFSDefault(text)));
  }
  return texts;
}

}  // namespace
}  // namespace alance

void register_folders(nanobind::module_& m) {
  using namespace alance;
  m.def("list_folder", &list_folder, "path"_a, "after"_a, "most"_a);
  m.def("begin_sync", &begin_sync, "fd"_a);
  m.def("environment", &environment, "names"_a);
}
