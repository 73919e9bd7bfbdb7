#include "launch/hosts.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

TEST(Hosts, Reads) {
  const auto hosts = parse_hosts("# mine\nn01 slots=4\n\nn02:2 # half\nn03\n", "hosts");
  EXPECT_EQ(host_list(hosts), "n01:4,n02:2,n03:1");
  EXPECT_EQ(slots(hosts), 7);
  EXPECT_EQ(host_of(hosts, 3), 0U);
  EXPECT_EQ(host_of(hosts, 4), 1U);
  EXPECT_EQ(host_of(hosts, 6), 2U);
  EXPECT_EQ(host_of(hosts, 9), 2U);
}

TEST(Hosts, RefusesWithThePlace) {
  const auto why = [](const char* text) -> std::string {
    try {
      parse_hosts(text, "hosts");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(why(""), "hosts: no hosts; wanted lines such as 'n01 slots=4'");
  EXPECT_EQ(why("n01\nn01\n"), "hosts:2: n01 stands there twice");
  EXPECT_EQ(why("n01 slots=x"), "hosts:1: found 'x' slots, wanted a whole number from 1");
  EXPECT_EQ(why("n01 slots=0"), "hosts:1: found '0' slots, wanted a whole number from 1");
  EXPECT_EQ(why("n01 cores=2"),
            "hosts:1: 'cores=2' is not understood, wanted a line such as 'n01 slots=4'");
}

}  // namespace
}  // namespace tessera
