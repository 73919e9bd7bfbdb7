// The texts that the pages are made of, embedded at build time (cmake/report_assets.cmake).
#pragma once

#include <string>

namespace tessera::report {

std::string page_template();  // page/page.html, with @NAME@ where a text belongs
std::string page_styles();    // page/page.css
std::string page_script();    // page/page.js
std::string plan_template();  // page/plan.html
std::string plan_script();    // page/plan.js
std::string common_script();  // page/common.js, before one of the other scripts
std::string chart_library();  // dygraphs, minified, with its license comment
std::string chart_styles();

}  // namespace tessera::report
