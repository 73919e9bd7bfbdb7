// tessera serve CHECKPOINT: serves the model over HTTP until a signal asks it to stop.
//
// The port is opened before the model is loaded, so a port in use is an error at once. A stop has
// two phases: new requests are rejected while accepted texts are completed, for at most --drain
// seconds; then the rest is cancelled. Both use the `stopping` callback of the server, which is
// called several times per second, so no thread of its own is needed.
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/count.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/adapter_option.h"
#include "cli/checkpoint_file.h"
#include "cli/rank.h"
#include "cli/sampling_options.h"
#include "cli/verbs.h"
#include "serve/service.h"
#include "train/signals.h"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostSeconds = 1'000'000'000;  // 31 years; a clock counts 292 in nanoseconds

struct ServeArguments {
  std::string checkpoint, adapter, name, key_file, template_file;
  eval::SlotOptions slots;
  serve::ServerOptions server;
  serve::EngineOptions engine;
  int64_t port = 8000, connections = 128, max_tokens = 0, body_mib = 8;
  double drain_s = 30;

  void declare(Arguments& a) {
    a.required(checkpoint, "CHECKPOINT",
               "a run directory, a checkpoints folder, one checkpoint or a Hugging Face folder");
    add_adapter(a, adapter);
    a.option(server.host, "--host", "ADDRESS",
             "address to listen on; the default is reachable only from this machine");
    a.option(port, "--port", "N", "port to listen on; 0: any free one");
    a.option(
        name, "--name", "NAME",
        "the model's name in requests; default: the folder name of --adapter, or of CHECKPOINT");
    a.option(key_file, "--api-key-file", "FILE", "require this key in requests");
    a.option(template_file, "--chat-template", "FILE",
             "a chat template in Jinja; default: that of the checkpoint");
    a.option(slots.slots, "--slots", "N", "number of texts generated in parallel");
    a.option(slots.context, "--context", "N", "tokens per text, prompt included; 0: the model's");
    a.option(max_tokens, "--max-tokens", "N",
             "maximum number of new tokens per text; 0: the context");
    a.option(engine.queue, "--queue", "N",
             "maximum number of texts that wait for a slot; further ones get status 429");
    a.option(engine.timeout_s, "--timeout", "SECONDS", "time limit of a request");
    a.option(connections, "--connections", "N",
             "maximum number of connections; further ones get status 503");
    a.option(body_mib, "--body-limit", "MIB", "largest request body; larger ones get status 413");
    a.option(server.request_s, "--request-timeout", "SECONDS",
             "time limit for receiving a request; slower ones get status 408");
    a.option(drain_s, "--drain", "SECONDS", "time to complete texts after a signal");
  }

  void check() {
    const auto within = [](const char* option, int64_t x, int64_t least, int64_t most) {
      if (x < least || x > most)
        throw UsageError("{} is {}, expected {} to {}.", option, x, least, most);
    };
    within("--port", port, 0, 65535);
    within("--connections", connections, 1, 65536);
    within("--queue", engine.queue, 0, 1 << 20);
    within("--max-tokens", max_tokens, 0, INT32_MAX);
    within("--body-limit", body_mib, 1, 1024);
    const auto seconds = [](const char* option, double x, double least) {
      if (!(x >= least && x <= kMostSeconds))
        throw UsageError("{} is {} seconds, expected {} to {}.", option, x, least, kMostSeconds);
    };
    seconds("--timeout", engine.timeout_s, 0.001);
    seconds("--request-timeout", server.request_s, 0.001);
    seconds("--drain", drain_s, 0);
    server.port = static_cast<int>(port);
    server.connections = static_cast<int>(connections);
    server.limits.body_bytes = static_cast<size_t>(body_mib) << 20;
  }
};

// Returns the name of a folder, without a trailing slash: "tuned" for runs/tuned/.
std::string folder_name(const std::string& path) {
  const Path p = std::filesystem::weakly_canonical(path);
  return p.filename().empty() ? "model" : p.filename().string();
}

std::string key_of(const std::string& file) {
  if (file.empty()) return "";
  std::string key = read_file(file);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' '))
    key.pop_back();
  if (key.empty()) throw Error("{} contains no key.", file);
  return key;
}

uint64_t random_seed() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != sizeof seed)
    seed = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  return seed;
}

// A connection is a descriptor; the limit of the shell is often 1024.
void raise_descriptor_limit(int64_t connections) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(
      std::max<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(connections) + 64), limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1"; }

void say_start(const ServeArguments& o, int port, const serve::ServiceOptions& service,
               const serve::ChatTemplate& chat, const eval::BatchDecoder& decoder) {
  if (!is_loopback(o.server.host) && service.api_key.empty())
    print_to(stderr, fmt::format("warning: {} is reachable from other machines, and there is no "
                                 "key. Give --api-key-file.\n",
                                 o.server.host));
  print_to(stderr,
           fmt::format("model {}: {} slots of {} tokens; weights {}, cache {}, planned memory {}\n"
                       "chat template: {}\n",
                       printable(service.model), decoder.slots(), decoder.context(),
                       bytes_text(decoder.weight_bytes()), bytes_text(decoder.cache_bytes()),
                       bytes_text(decoder.memory_bytes()), chat.description()));
  const bool v6 = o.server.host.find(':') != std::string::npos;
  print_to(stderr, fmt::format("serving on http://{}{}{}:{}/v1\n", v6 ? "[" : "", o.server.host,
                               v6 ? "]" : "", port));
}

}  // namespace

int verb_serve(Args args) {
  ServeArguments o;
  Arguments a("serve", "Serve the model of a checkpoint over HTTP with OpenAI's API.",
              "tessera serve runs/tuned --port 8000");
  o.declare(a);
  DeviceArguments device(a);
  if (!a.parse(args)) return 0;
  require_one_rank("serve");
  o.check();
  checkpoint::CheckpointReader reader(choose_checkpoint(o.checkpoint));
  use_adapter(o.adapter, reader);
  const auto tokenizer = tokenizer_of(reader);
  const eval::SpecialTokenRules rules = eval::text_rules(reader, *tokenizer);
  const auto chat = serve::chat_template_of(reader, *tokenizer, o.template_file);
  serve::ServiceOptions service_options;
  const std::string& served = reader.used_adapters() != nullptr ? o.adapter : o.checkpoint;
  service_options.model = o.name.empty() ? folder_name(served) : o.name;
  service_options.api_key = key_of(o.key_file);
  service_options.max_tokens = o.max_tokens;
  service_options.seed = random_seed();
  raise_descriptor_limit(o.connections);
  serve::HttpServer server(o.server);  // before the model is loaded: a port in use is found at once
  eval::BatchDecoder decoder(reader, device.options(*comm::self_world()), o.slots);
  serve::Engine engine(decoder, *tokenizer, rules.vocabulary, o.engine);
  serve::Service service(engine, decoder, *tokenizer, rules, *chat, service_options);
  const train::StopSignals signals;
  say_start(o, server.port(), service_options, *chat, decoder);
  std::optional<Clock::time_point> asked;
  server.run([&](const serve::HttpRequest& r, serve::Responder& s) { service.handle(r, s); },
             [&] {
               if (!signals.requested()) return false;
               if (!asked) {
                 asked = Clock::now();
                 engine.drain();
                 print_to(stderr, "stopping: completing the texts that were accepted\n");
               }
               const std::chrono::duration<double> waited = Clock::now() - *asked;
               if (server.answering() > 0 && waited.count() < o.drain_s) return false;
               engine.abandon();
               return true;
             });
  print_to(stderr, "stopped\n");
  return 0;
}

}  // namespace tessera::cli
