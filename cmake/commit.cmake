# Writes a source file that names the commit, if it would differ. Run in every build:
#   cmake -DSOURCE=TOP_FOLDER -DOUTPUT=FILE -P commit.cmake
execute_process(COMMAND git describe --always --dirty --abbrev=10 WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failure)
if(failure OR NOT commit)
  set(commit unknown)
endif()
set(text "#include \"core/build_facts.h\"

namespace pagedinfer {

std::string_view build_commit() { return \"${commit}\"; }

}  // namespace pagedinfer
")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
