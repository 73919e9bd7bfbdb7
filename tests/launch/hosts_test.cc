#include "launch/hosts.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::launch {
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

TEST(Hosts, SlotsOfAHostThatIsListedTwiceAddUp) {
  EXPECT_EQ(host_list(parse_hosts("n01 slots=2\nn02\nn01:3\n", "hosts")), "n01:5,n02:1");
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
  EXPECT_EQ(why(""), "hosts: no hosts, expected lines such as 'n01 slots=4'");
  EXPECT_EQ(why("n01 slots=x"), "hosts:1: slots = 'x', expected an integer from 1 to 10000");
  EXPECT_EQ(why("n01 slots=0"), "hosts:1: slots = '0', expected an integer from 1 to 10000");
  EXPECT_EQ(why("n01 cores=2"),
            "hosts:1: unknown entry 'cores=2', expected a line such as 'n01 slots=4'");
  EXPECT_NE(why("--version\n").find("hosts:1: '--version' is not a host name"), std::string::npos);
  EXPECT_NE(why("a,b\n").find("is not a host name"), std::string::npos);
}

}  // namespace
}  // namespace tessera::launch
