# What `cmake --install` installs: the program, what it finds beside itself, and what a system wants
# to know of it.
include(GNUInstallDirs)
set(pages ${PROJECT_BINARY_DIR}/pages)
set(page_files)
foreach(page man=pagedinfer.1 bash=pagedinfer zsh=_pagedinfer fish=pagedinfer.fish)
  string(REPLACE "=" ";" page ${page})
  list(GET page 0 kind)
  list(GET page 1 name)
  add_custom_command(OUTPUT ${pages}/${kind}/${name} DEPENDS pagedinfer
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/${kind}
    COMMAND pagedinfer --generate ${kind} > ${pages}/${kind}/${name} VERBATIM)
  list(APPEND page_files ${pages}/${kind}/${name})
endforeach()
add_custom_target(pages ALL DEPENDS ${page_files})

# An archive carries libraries.
set_target_properties(pagedinfer PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS pagedinfer RUNTIME)
file(GLOB configs ${PROJECT_SOURCE_DIR}/datasets/configs/*)
set(models ${PROJECT_SOURCE_DIR}/datasets)
install(DIRECTORY ${models}/story-llama ${models}/story-qwen3 ${models}/story-gemma3 ${configs}
  DESTINATION ${CMAKE_INSTALL_DATADIR}/pagedinfer)
install(FILES ${models}/prompts.jsonl DESTINATION ${CMAKE_INSTALL_DATADIR}/pagedinfer)
install(FILES ${pages}/man/pagedinfer.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/bash/pagedinfer
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${pages}/zsh/_pagedinfer DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${pages}/fish/pagedinfer.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES LICENSE README.md CHANGELOG.md packaging/copyright
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
