#include "shared_variables.h"

#include <elf.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace emulated {
namespace {

// How the encoded name of a function's variable begins, and what it holds if that is a kernel's.
constexpr std::string_view kOfFunction = "_ZZ", kOfKernels = "10pagedinfer7kernels";

// Of a source file; the keys are the functions there.
using VariablesOfFiles = std::unordered_map<const void*, std::shared_ptr<SharedVariables>>;

// The program is loaded so many bytes behind its addresses in the file.
ElfW(Addr) load_offset() {
  ElfW(Addr) offset = 0;
  // The program comes first.
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        *static_cast<ElfW(Addr)*>(found) = info->dlpi_addr;
        return 1;
      },
      &offset);
  return offset;
}

VariablesOfFiles find_variables() {
  std::ifstream stream("/proc/self/exe", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  const std::span sections(reinterpret_cast<const Elf64_Shdr*>(file.data() + header.e_shoff),
                           header.e_shnum);
  const ElfW(Addr) offset = load_offset();
  VariablesOfFiles found;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const std::span symbols(reinterpret_cast<const Elf64_Sym*>(file.data() + section.sh_offset),
                            section.sh_size / sizeof(Elf64_Sym));
    const char* const names = file.data() + sections[section.sh_link].sh_offset;
    // A file's symbols follow its name.
    auto of_file = std::make_shared<SharedVariables>();
    for (const Elf64_Sym& symbol : symbols.first(section.sh_info)) {
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      const std::string_view name = names + symbol.st_name;
      auto* const at = reinterpret_cast<unsigned char*>(offset + symbol.st_value);
      if (type == STT_FILE) of_file = std::make_shared<SharedVariables>();
      if (type == STT_FUNC) found[at] = of_file;
      if (type == STT_OBJECT && (sections[symbol.st_shndx].sh_flags & SHF_WRITE) != 0 &&
          name.starts_with(kOfFunction) && name.find(kOfKernels) != name.npos) {
        of_file->emplace_back(at, symbol.st_size);
      }
    }
  }
  return found;
}

}  // namespace

const SharedVariables& shared_variables_of(const void* kernel) {
  static const VariablesOfFiles all = find_variables();
  const auto found = all.find(kernel);
  if (found != all.end()) return *found->second;
  std::fputs("the program's table of symbols does not have a kernel\n", stderr);
  std::abort();
}

}  // namespace emulated
