// Listing of folders in the order of object stores, and early write-back of new files to disk.
//
// Like pieces.cpp it belongs to the I/O half (`alance/io/disk/publish.py`).
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
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

#if defined(_WIN32)
int read_keys(const char* path, const std::string& after, std::vector<std::string>& keys) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::u8path(path), error)) {
    std::string key = entry.path().filename().u8string();
    if (entry.is_directory() && !entry.is_symlink()) key += '/';
    if (key > after) keys.push_back(std::move(key));
  }
  return error.value();
}
#else
bool is_folder(DIR* folder, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat about;
  return fstatat(dirfd(folder), entry.d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(about.st_mode);
}

// Append the keys greater than `after`; returns 0 or the system's error number.
int read_keys(const char* path, const std::string& after, std::vector<std::string>& keys) {
  DIR* folder = opendir(path);
  if (folder == nullptr) return errno;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(folder);
    if (entry == nullptr) break;
    std::string key = entry->d_name;
    if (key == "." || key == "..") continue;
    if (is_folder(folder, *entry)) key += '/';
    if (key > after) keys.push_back(std::move(key));
  }
  const int status = errno;
  closedir(folder);
  return status;
}
#endif

// Returns 0 or the system's error number, and the first `most` keys greater than `after`, each
// followed by a zero byte. A key is an entry's name; the key of a folder ends with `/`.
nb::tuple folder_keys(const nb::bytes& path, const nb::bytes& after, int64_t most) {
  std::string content;
  int status;
  {
    nb::gil_scoped_release release;
    std::vector<std::string> keys;
    status = read_keys(path.c_str(), {after.c_str(), after.size()}, keys);
    const auto count = std::min<int64_t>(most, std::ssize(keys));
    std::partial_sort(keys.begin(), keys.begin() + count, keys.end());
    for (int64_t i = 0; i < count; ++i) content.append(keys[static_cast<size_t>(i)]).push_back(0);
  }
  return nb::make_tuple(status, nb::bytes(content.data(), content.size()));
}

// Start the write-back of a file's dirty pages without waiting (Linux; elsewhere no effect). A
// later fsync reports errors.
void begin_sync([[maybe_unused]] int fd) {
#if defined(__linux__)
  nb::gil_scoped_release release;
  sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

}  // namespace
}  // namespace alance

void register_folders(nanobind::module_& m) {
  using namespace alance;
  m.def("folder_keys", &folder_keys, "path"_a, "after"_a, "most"_a);
  m.def("begin_sync", &begin_sync, "fd"_a);
}
