// Attention by cuDNN's graph API. This is the only file that includes the headers of cuDNN's
// frontend. cuDNN has no mask by labels (documents, padding), so a score modifier implements it: a
// small graph of pointwise ops that replaces the score of a masked key by a large negative number.
// Gradients use only deterministic algorithms.
#include <cudnn_frontend.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "kernels/gpu/cudnn.h"
#include "tensor/gpu/check.h"
#include "tensor/gpu/late_library.h"

// The frontend looks up its functions through this handle.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace tessera::kernels {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// The maximum number of cuDNN's proposals that are tried, in the order of its heuristic.
constexpr int64_t kMostPlans = 4;
// The score of masked keys, as in our own kernels. It is finite, so that a query that attends to no
// key weights all keys equally.
constexpr float kMaskedScore = -1e30f;

enum Uid : int64_t { kQ = 1, kK, kV, kOut, kStats, kDOut, kDq, kDk, kDv, kQueryLabels, kKeyLabels };

// Shortens a long message to its first line and its first reason.
std::string brief(const std::string& message) {
  std::string first = message.substr(0, message.find('\n'));
  while (!first.empty() && (first.back() == '_' || first.back() == ' ')) first.pop_back();
  const size_t reason = message.find("Reason: ");
  if (reason == std::string::npos || reason < first.size()) return first;
  return fmt::format("{}: {}", first, message.substr(reason, message.find('\n', reason) - reason));
}
void check(const fe::error_t& e, const std::string& what) {
  if (e.is_bad()) throw Error("cuDNN cannot {}: {}", what, brief(e.err_msg));
}
void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error("{} failed: {}.", call, fe::detail::get_error_string(status));
}

// Runs f and converts the exceptions of the frontend to Error.
template <class F>
void guarded(const F& f) {
  try {
    f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error("cuDNN failed: {}", e.what());
  }
}

}  // namespace

struct CudaDnn::Handle {
  // cuDNN's frontend zeroes memory with the shared CUDA runtime, which it finds by name.
  LateLibrary runtime = {"libcudart.so.13", TESSERA_CUDA_LIBRARIES, "the runtime of CUDA 13"};
  LateLibrary library = {"libcudnn.so.9", TESSERA_CUDA_LIBRARIES, "cuDNN 9"};
  cudnnHandle_t native = nullptr;  // only for a GPU of this machine
  std::shared_ptr<fe::DeviceProperties> card;
  int architecture = 0;

  Handle() { fe::cudnn_dlhandle = library.native(); }
  ~Handle() {
    if (native != nullptr) fe::detail::destroy_handle(native);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

CudaDnn::CudaDnn() : handle_(std::make_unique<Handle>()) {
  guarded([&] { check(fe::detail::create_handle(&handle_->native), "cudnnCreate"); });
}
CudaDnn::CudaDnn(std::string_view card, int architecture) : handle_(std::make_unique<Handle>()) {
  handle_->card = std::make_shared<fe::DeviceProperties>();
  handle_->architecture = architecture;
  check(handle_->card->deserialize({card.begin(), card.end()}), "read the description of a GPU");
}
CudaDnn::~CudaDnn() = default;
int64_t CudaDnn::version() const { return fe::detail::get_backend_version(); }

namespace gpu {

struct DnnAttention::Graph {
  const CudaDnn::Handle& dnn;
  // mutable: running a plan changes caches of the frontend.
  mutable fe::graph::Graph graph{};

  Graph(const DnnShape& shape, const CudaDnn& library) : dnn(library.handle()) {
    const auto type = shape.dtype == DType::kBF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
    graph.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (dnn.card) graph.set_device_properties(dnn.card).set_sm_version(dnn.architecture);
    shape.gradient ? add_gradient(shape) : add_forward(shape);
    check(graph.validate(), "compute attention of this shape");
    check(dnn.native ? graph.build_operation_graph(dnn.native) : graph.build_operation_graph(),
          "build the attention graph");
    check(graph.create_execution_plans({fe::HeurMode_t::A}), "plan attention");
    check(graph.check_support(), "plan attention on this GPU");
  }

  static std::vector<int64_t> dims(const DnnShape& s, bool queries) {
    return {s.batch, queries ? s.heads : s.kv_heads, queries ? s.queries : s.keys, s.d};
  }
  static std::vector<int64_t> strides(const HeadPlaces& p) { return {p.batch, p.head, p.row, 1}; }

  Tensor given(const char* name, Uid uid, const DnnShape& s, bool queries, const HeadPlaces& p) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(uid)
                            .set_dim(dims(s, queries))
                            .set_stride(strides(p)));
  }
  static void written(const Tensor& t, Uid uid, const DnnShape& s, bool queries,
                      const HeadPlaces& p) {
    t->set_output(true).set_uid(uid).set_dim(dims(s, queries)).set_stride(strides(p));
  }
  template <class T>
  static T& as_stats(T& t, const DnnShape& s) {
    return t.set_uid(kStats)
        .set_dim({s.batch, s.heads, s.queries, 1})
        .set_stride({s.stats_batch, s.stats_head, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }

  // Labels of queries are a column and labels of keys a row, so their comparison broadcasts to a
  // matrix.
  Tensor labels(const DnnShape& s, bool queries) {
    const int64_t batch = s.label_batch == 0 ? 1 : s.batch;
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(queries ? "query labels" : "key labels")
                            .set_uid(queries ? kQueryLabels : kKeyLabels)
                            .set_dim({batch, 1, queries ? s.queries : 1, queries ? 1 : s.keys})
                            .set_stride({s.keys, s.keys, queries ? 1 : s.keys, 1})
                            .set_data_type(fe::DataType_t::INT32));
  }

  template <class Options>
  void set_scope(const DnnShape& s, Options& options) {
    options.set_attn_scale(s.scale);
    if (s.labels == DnnLabels::kNone) {
      options.set_causal_mask(s.causal);
      return;
    }
    // With a score modifier, cuDNN does not support its own masks, so the modifier also applies the
    // causal mask.
    const Tensor of_key = labels(s, false);
    const Tensor of_query = s.labels == DnnLabels::kSame ? labels(s, true) : nullptr;
    options.set_score_mod([of_query, of_key, causal = s.causal](
                              const std::shared_ptr<fe::graph::Graph>& g, const Tensor& score) {
      const Tensor seen = hide_others(*g, score, of_query, of_key);
      return causal ? fe::graph::attn::score_modifiers::causal_mask(g, seen) : seen;
    });
  }

  // Replaces the score of a key with another label (or, without query labels, with label 0) by
  // kMaskedScore.
  static Tensor hide_others(fe::graph::Graph& g, const Tensor& score, const Tensor& of_query,
                            const Tensor& of_key) {
    using Mode = fe::PointwiseMode_t;
    constexpr auto kInteger = fe::DataType_t::INT32, kTruth = fe::DataType_t::BOOLEAN;
    const auto how = [](Mode mode, fe::DataType_t type) {
      return fe::graph::Pointwise_attributes().set_mode(mode).set_compute_data_type(type);
    };
    const auto made = [](const Tensor& t, fe::DataType_t type) {
      t->set_data_type(type);
      return t;
    };
    // The operands of a comparison must be results of graph ops, so the row index is added to both.
    const Tensor row =
        made(g.pointwise(score, how(Mode::GEN_INDEX, kInteger).set_axis(2)), kInteger);
    const auto beside_row = [&](const Tensor& label) {
      return made(g.pointwise(row, label, how(Mode::ADD, kInteger)), kInteger);
    };
    const Mode compare = of_query ? Mode::CMP_EQ : Mode::CMP_NEQ;
    const Tensor sees = made(g.pointwise(beside_row(of_key), of_query ? beside_row(of_query) : row,
                                         how(compare, kTruth)),
                             kTruth);
    const Tensor hidden = std::make_shared<fe::graph::Tensor_attributes>(kMaskedScore);
    return g.pointwise(score, hidden, sees, how(Mode::BINARY_SELECT, fe::DataType_t::FLOAT));
  }

  void add_forward(const DnnShape& s) {
    const Tensor q = given("q", kQ, s, true, s.q), k = given("k", kK, s, false, s.k),
                 v = given("v", kV, s, false, s.v);
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    set_scope(s, options);
    const auto [out, stats] = graph.sdpa(q, k, v, options);
    written(out, kOut, s, true, s.out);
    as_stats(stats->set_output(true), s);
  }

  void add_gradient(const DnnShape& s) {
    const Tensor q = given("q", kQ, s, true, s.q), k = given("k", kK, s, false, s.k),
                 v = given("v", kV, s, false, s.v), out = given("out", kOut, s, true, s.out),
                 d_out = given("d_out", kDOut, s, true, s.out);
    fe::graph::Tensor_attributes described;
    const Tensor stats = graph.tensor(as_stats(described.set_name("stats"), s));
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention gradient")
                       .set_deterministic_algorithm(true);
    set_scope(s, options);
    const auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, out, d_out, stats, options);
    written(dq, kDq, s, true, s.q);
    written(dk, kDk, s, false, s.k);
    written(dv, kDv, s, false, s.v);
  }
};

DnnAttention::DnnAttention(const DnnShape& shape, const CudaDnn& dnn) : shape_(shape) {
  guarded([&] {
    graph_ = std::make_unique<Graph>(shape, dnn);
    const int64_t count = std::min(kMostPlans, graph_->graph.get_execution_plan_count());
    for (int64_t i = 0; i < count; ++i)
      check(graph_->graph.get_plan_name_at_index(i, plans_.emplace_back()), "name a plan");
  });
}
DnnAttention::~DnnAttention() = default;

void DnnAttention::build(size_t plan) {
  guarded([&] {
    check(graph_->graph.build_plan_at_index(plan), "generate the code of " + plans_.at(plan));
  });
}

int64_t DnnAttention::workspace_bytes(size_t plan) const {
  int64_t bytes = 0;
  guarded([&] {
    check(graph_->graph.get_workspace_size_plan_at_index(plan, bytes),
          "return the workspace size of " + plans_.at(plan));
  });
  return bytes;
}

void DnnAttention::run(Stream s, size_t plan, const DnnOperands& o, void* workspace) const {
  CHECK(graph_->dnn.native != nullptr, "attention on a GPU that this machine does not have");
  // cuDNN's pointers are not const, but inputs are not written.
  std::unordered_map<int64_t, void*> at = {{kQ, const_cast<void*>(o.q)},
                                           {kK, const_cast<void*>(o.k)},
                                           {kV, const_cast<void*>(o.v)},
                                           {kOut, o.out},
                                           {kStats, o.stats}};
  if (shape_.gradient) {
    at.emplace(kDOut, const_cast<void*>(o.d_out));
    at.emplace(kDq, o.dq);
    at.emplace(kDk, o.dk);
    at.emplace(kDv, o.dv);
  }
  if (shape_.labels != DnnLabels::kNone) at.emplace(kKeyLabels, const_cast<int32_t*>(o.labels));
  if (shape_.labels == DnnLabels::kSame) at.emplace(kQueryLabels, const_cast<int32_t*>(o.labels));
  guarded([&] {
    check(fe::detail::set_stream(graph_->dnn.native, native(s)), "cudnnSetStream");
    check(graph_->graph.execute_plan_at_index(graph_->dnn.native, at, workspace, plan),
          "run " + plans_.at(plan));
  });
}

}  // namespace gpu
}  // namespace tessera::kernels
