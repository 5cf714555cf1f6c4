# Sets PAGEDINFER_HAS_GRAMMAR: whether answers can be kept in a given form, by xgrammar, which
# scripts/install_xgrammar.sh compiles. PAGEDINFER_GRAMMAR is AUTO (where it is installed), ON (an
# error if it is not) or OFF.
set(PAGEDINFER_HAS_GRAMMAR OFF)
if(NOT PAGEDINFER_GRAMMAR MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "PAGEDINFER_GRAMMAR=${PAGEDINFER_GRAMMAR}: expected AUTO, ON or OFF")
elseif(PAGEDINFER_GRAMMAR STREQUAL "OFF")
  message(STATUS "Answers in a given form: no (PAGEDINFER_GRAMMAR=OFF)")
  return()
endif()

# The folder is named by what it was made from, as the script names it.
set(recipe ${CMAKE_CURRENT_LIST_DIR}/xgrammar)
file(READ ${recipe}/requirement.txt requirement)
file(READ ${recipe}/CMakeLists.txt build)
string(SHA256 key "${requirement}${build}")
string(SUBSTRING ${key} 0 16 key)
string(REGEX MATCH "[0-9.]+" xgrammar_VERSION "${requirement}")
set(cache $ENV{XDG_CACHE_HOME})
if(NOT cache)
  set(cache $ENV{HOME}/.cache)
endif()
set(installed ${cache}/pagedinfer/xgrammar-${key})

if(EXISTS ${installed}/lib/libxgrammar.a)
  add_library(xgrammar STATIC IMPORTED)
  set_target_properties(xgrammar PROPERTIES IMPORTED_LOCATION ${installed}/lib/libxgrammar.a)
  target_include_directories(xgrammar INTERFACE ${installed}/include)
  set(PAGEDINFER_HAS_GRAMMAR ON)
  message(STATUS "Answers in a given form: ${installed}")
elseif(PAGEDINFER_GRAMMAR STREQUAL "ON")
  message(FATAL_ERROR
    "PAGEDINFER_GRAMMAR=ON: found no ${installed}, which scripts/install_xgrammar.sh makes")
else()
  message(STATUS "Answers in a given form: no (found no ${installed})")
endif()
