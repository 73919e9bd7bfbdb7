# `cmake --install`, and the packages that scripts/package.sh makes with CPack. Two components:
#   program    the program, run files, man page, completions, documents
#   libraries  the shared libraries of the program that a system's libc does not have, for the tarball
include(GNUInstallDirs)
set(TESSERA_LIBRARIES lib/tessera)

# The tarball's program finds the libraries next to it. The tag DT_RPATH, older than the linker's
# default, applies to the libraries of these libraries too.
set_target_properties(tessera PROPERTIES INSTALL_RPATH "$ORIGIN/../${TESSERA_LIBRARIES}")
target_link_options(tessera PRIVATE -Wl,--disable-new-dtags)
install(TARGETS tessera RUNTIME_DEPENDENCY_SET tessera_libraries COMPONENT program)
install(RUNTIME_DEPENDENCY_SET tessera_libraries
  PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\\.so"
  COMPONENT libraries DESTINATION ${TESSERA_LIBRARIES} EXCLUDE_FROM_ALL)
# A library with a RUNPATH of its own (Debian's libmpi) would not be searched for by the program's.
install(CODE "file(GLOB bundled \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${TESSERA_LIBRARIES}/*.so*\")
  foreach(library IN LISTS bundled)
    if(NOT IS_SYMLINK \${library})
      file(RPATH_REMOVE FILE \${library})
    endif()
  endforeach()" COMPONENT libraries EXCLUDE_FROM_ALL)

install(DIRECTORY configs examples DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera COMPONENT program
  USE_SOURCE_PERMISSIONS)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
  PATTERN images EXCLUDE)

# Made from the program's own --help.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(shell_files ${CMAKE_BINARY_DIR}/shell_files)
  install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/shell_files.py
    --program $<TARGET_FILE:tessera> --out ${shell_files} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
  install(FILES ${shell_files}/tessera.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${shell_files}/tessera DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT program)
  # Debian's zsh reads site-functions only below /usr/local, and vendor-completions below /usr.
  foreach(folder site-functions vendor-completions)
    install(FILES ${shell_files}/_tessera DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder} COMPONENT program)
  endforeach()
  install(FILES ${shell_files}/tessera.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
    COMPONENT program)
endif()

set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR "The Tessera authors")
set(CPACK_PACKAGE_CONTACT "The Tessera authors <tessera@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "pre-trains and fine-tunes large language models")
set(CPACK_PACKAGE_DESCRIPTION "Tessera pre-trains and fine-tunes large language models, on one core, a laptop or a cluster of GPUs.
 A training step is a compiled program: the same program is run, simulated, checked and explained.")
set(CPACK_STRIP_FILES ON)
set(CPACK_SYSTEM_NAME linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin")
include(CPack)
