/* SPDX-License-Identifier: MIT */
/* A device for tests, as late as an accelerator may be. Each stream is a queue; one thread runs what is
 * queued when somebody waits for it, or after LATE. So whoever forgets to wait reads what was there
 * before.
 *
 *     memory    mapped twice: where tensors point the host can neither read nor write (SIGSEGV), where
 *               kernels work it can. Freed memory is filled with 0xff (NaN) in the order of its stream,
 *               and of those that record_stream named; new memory is what was freed
 *     kernels   those of the CPU, on the other mapping; shapes of results by the meta device. Without
 *               them (item, nonzero) the host waits
 *     copies    late if the host's side is pinned and they are non_blocking, else the host waits
 *     counted   bytes down and up, how often the host waited, kernels */
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using Stack = torch::jit::Stack;
constexpr size_t ROOM = size_t{4} << 30, GRAIN = 256;
constexpr auto LATE = std::chrono::milliseconds(200);
constexpr int STREAMS = 64;
constexpr auto KEY = c10::DispatchKey::PrivateUse1;
constexpr auto KIND = c10::DeviceType::PrivateUse1;
enum { DOWN, UP, WAITS, KERNELS, N_COUNTS };

struct Task {
    std::function<void()> run;
    Clock::time_point due;
    int after_stream; /* -1: of none */
    uint64_t after;   /* how many of that stream have to be done */
};

struct Queue {
    std::deque<Task> tasks;
    uint64_t given = 0, done = 0, wanted = 0;
};

struct Event {
    int stream = -1;
    uint64_t at = 0;
};

struct Block {
    size_t at, size;
    int stream;
    std::set<int> used;
};

/* All of the device, made in the process that first uses it: forks have one each. */
struct Late {
    std::mutex lock;
    std::condition_variable work, finished;
    Queue queues[STREAMS];
    int n_streams = 1;
    char *seen, *real;
    size_t top = 0;
    std::multimap<size_t, size_t> free; /* size -> place */
    std::map<char *, size_t> pinned;
    std::map<char *, Event> pinned_use; /* its last one */
    int64_t counts[N_COUNTS] = {0};
    std::string trouble;

    Late() {
        int fd = memfd_create("late", 0);
        TORCH_CHECK(fd >= 0 && ftruncate(fd, ROOM) == 0, "no memory for the late device");
        seen = static_cast<char *>(
            mmap(nullptr, ROOM, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0));
        real = static_cast<char *>(mmap(nullptr, ROOM, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_NORESERVE, fd, 0));
        close(fd);
        std::thread([this] { serve(); }).detach();
    }

    /* The stream whose first task is to be run now, or -1. Lock held. */
    int next(Clock::time_point *until) {
        for (bool again = true; again;) {
            again = false;
            for (int i = n_streams - 1; i >= 0; i--) {
                Queue &q = queues[i];
                if (q.tasks.empty()) continue;
                Task &t = q.tasks.front();
                if (q.done >= q.wanted && t.due > Clock::now()) {
                    *until = std::min(*until, t.due);
                    continue;
                }
                if (t.after_stream < 0 || queues[t.after_stream].done >= t.after)
                    return i;
                Queue &first = queues[t.after_stream];
                again |= first.wanted < t.after;
                first.wanted = std::max(first.wanted, t.after);
            }
        }
        return -1;
    }

    void serve() {
        at::AutoDispatchBelowADInplaceOrView below;
        std::unique_lock<std::mutex> guard(lock);
        for (;;) {
            auto until = Clock::now() + std::chrono::seconds(1);
            int i = next(&until);
            if (i < 0) {
                work.wait_until(guard, until);
                continue;
            }
            Task task = std::move(queues[i].tasks.front());
            queues[i].tasks.pop_front();
            guard.unlock();
            try {
                if (task.run) task.run();
            } catch (const std::exception &error) {
                fprintf(stderr, "late device: %s\n", error.what());
                trouble = error.what();
            }
            task.run = nullptr;
            guard.lock();
            queues[i].done++;
            finished.notify_all();
        }
    }

    void give(int stream, std::function<void()> run, Event after = {}) {
        std::lock_guard<std::mutex> guard(lock);
        give_locked(stream, std::move(run), after);
    }

    void give_locked(int stream, std::function<void()> run, Event after = {}) {
        Queue &q = queues[stream];
        q.tasks.push_back({std::move(run), Clock::now() + LATE, after.stream, after.at});
        q.given++;
        work.notify_all();
    }

    Event mark(int stream) {
        std::lock_guard<std::mutex> guard(lock);
        return {stream, queues[stream].given};
    }

    bool is_done(Event e) {
        std::lock_guard<std::mutex> guard(lock);
        return e.stream < 0 || queues[e.stream].done >= e.at;
    }

    /* The host waits. */
    void wait(Event e) {
        std::unique_lock<std::mutex> guard(lock);
        if (e.stream < 0) return;
        Queue &q = queues[e.stream];
        counts[WAITS] += q.done < e.at;
        q.wanted = std::max(q.wanted, e.at);
        work.notify_all();
        finished.wait(guard, [&] { return q.done >= e.at; });
        TORCH_CHECK(trouble.empty(), trouble);
    }

    void wait_all() {
        for (int i = 0; i < n_streams; i++) wait(mark(i));
    }

    size_t take(size_t n) {
        std::lock_guard<std::mutex> guard(lock);
        auto found = free.lower_bound(n);
        if (found != free.end() && found->first <= 2 * n) {
            size_t at = found->second;
            free.erase(found);
            return at;
        }
        TORCH_CHECK(top + n <= ROOM, "the late device has no memory left");
        size_t at = top;
        memset(real + at, 0xff, n);
        top += n;
        return at;
    }

    /* In the order of its stream, after all that others were known to do with it. */
    void release(Block *b) {
        std::lock_guard<std::mutex> guard(lock);
        for (int s : b->used) give_locked(b->stream, nullptr, {s, queues[s].given});
        give_locked(b->stream, [this, b] {
            memset(real + b->at, 0xff, b->size);
            std::lock_guard<std::mutex> inside(lock);
            free.emplace(b->size, b->at);
            delete b;
        });
    }

    char *pin_of(const void *p) {
        std::lock_guard<std::mutex> guard(lock);
        auto found = pinned.upper_bound(static_cast<char *>(const_cast<void *>(p)));
        if (found == pinned.begin()) return nullptr;
        --found;
        return static_cast<const char *>(p) < found->first + found->second ? found->first
                                                                           : nullptr;
    }
};

Late &late() {
    static Late *made = nullptr;
    static pid_t process = 0;
    static std::mutex making;
    std::lock_guard<std::mutex> guard(making);
    if (process != getpid()) {
        made = new Late();
        process = getpid();
    }
    return *made;
}

thread_local int current = 0;

/* --- memory --- */

struct Memory final : c10::Allocator {
    c10::DataPtr allocate(size_t n) override {
        const c10::Device device(KIND, 0);
        if (n == 0) return {nullptr, nullptr, &remove, device};
        n = (n + GRAIN - 1) / GRAIN * GRAIN;
        Block *b = new Block{late().take(n), n, current, {}};
        return {late().seen + b->at, b, &remove, device};
    }
    static void remove(void *b) {
        if (b != nullptr) late().release(static_cast<Block *>(b));
    }
    void copy_data(void *, const void *, size_t) const override {
        TORCH_CHECK(false, "copied without a stream");
    }
};

struct Pinned final : c10::Allocator {
    c10::DataPtr allocate(size_t n) override {
        char *p = static_cast<char *>(malloc(std::max(n, GRAIN)));
        std::lock_guard<std::mutex> guard(late().lock);
        late().pinned[p] = std::max(n, GRAIN);
        return {p, p, &remove, c10::Device(c10::kCPU)};
    }
    static void remove(void *context) {
        Late &d = late();
        char *p = static_cast<char *>(context);
        std::lock_guard<std::mutex> guard(d.lock);
        auto found = d.pinned.find(p);
        if (found == d.pinned.end()) return; /* of the process that this is a fork of */
        size_t n = found->second;
        auto use = d.pinned_use.find(p);
        auto end = [p, n] {
            memset(p, 0xff, n);
            ::free(p);
        };
        if (use == d.pinned_use.end() ||
            d.queues[use->second.stream].done >= use->second.at) {
            end();
        } else {
            d.give_locked(use->second.stream, end, use->second);
        }
        d.pinned.erase(found);
        d.pinned_use.erase(p);
    }
    void copy_data(void *to, const void *from, size_t n) const override {
        memcpy(to, from, n);
    }
};

Memory memory;
Pinned pinned;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &memory)

/* --- streams and events --- */

struct Guard final : c10::impl::DeviceGuardImplInterface {
    static constexpr c10::DeviceType static_type = KIND;
    static c10::Stream stream(int i) {
        return c10::Stream(c10::Stream::UNSAFE, c10::Device(KIND, 0), i);
    }
    c10::DeviceType type() const override { return KIND; }
    c10::Device exchangeDevice(c10::Device) const override { return {KIND, 0}; }
    c10::Device getDevice() const override { return {KIND, 0}; }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    c10::Stream getStream(c10::Device) const override { return stream(current); }
    c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
    c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override {
        return getNewStream(d, 0);
    }
    c10::Stream getNewStream(c10::Device, int) const override {
        std::lock_guard<std::mutex> guard(late().lock);
        TORCH_CHECK(late().n_streams < STREAMS, "too many streams");
        return stream(late().n_streams++);
    }
    c10::Stream exchangeStream(c10::Stream s) const override {
        int before = current;
        current = static_cast<int>(s.id());
        return stream(before);
    }
    void destroyEvent(void *e, c10::DeviceIndex) const noexcept override {
        delete static_cast<Event *>(e);
    }
    void record(void **e, const c10::Stream &s, c10::DeviceIndex,
                c10::EventFlag) const override {
        if (*e == nullptr) *e = new Event();
        *static_cast<Event *>(*e) = late().mark(static_cast<int>(s.id()));
    }
    void block(void *e, const c10::Stream &s) const override {
        if (e != nullptr)
            late().give(static_cast<int>(s.id()), nullptr, *static_cast<Event *>(e));
    }
    bool queryEvent(void *e) const override {
        return e == nullptr || late().is_done(*static_cast<Event *>(e));
    }
    void synchronizeEvent(void *e) const override {
        if (e != nullptr) late().wait(*static_cast<Event *>(e));
    }
    bool queryStream(const c10::Stream &s) const override {
        return late().is_done(late().mark(static_cast<int>(s.id())));
    }
    void synchronizeStream(const c10::Stream &s) const override {
        late().wait(late().mark(static_cast<int>(s.id())));
    }
    void synchronizeDevice(c10::DeviceIndex) const override { late().wait_all(); }
    void recordDataPtrOnStream(const c10::DataPtr &p,
                               const c10::Stream &s) const override {
        auto *b = static_cast<Block *>(p.get_context());
        if (b == nullptr || s.id() == b->stream) return;
        std::lock_guard<std::mutex> guard(late().lock);
        b->used.insert(static_cast<int>(s.id()));
    }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    void init() const override {}
    c10::DeviceIndex deviceCount() const override { return 1; }
    void setCurrentDevice(c10::DeviceIndex) const override {}
    c10::DeviceIndex getCurrentDevice() const override { return 0; }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
    bool isPinnedPtr(const void *p) const override { return late().pin_of(p) != nullptr; }
    c10::Allocator *getPinnedMemoryAllocator() const override { return &pinned; }
    c10::Device getDeviceFromPtr(void *) const override { return {KIND, 0}; }
    void resizePrivateUse1Bytes(const c10::Storage &s, size_t n) const override {
        c10::DataPtr more = memory.allocate(n);
        size_t keep = std::min(n, s.nbytes());
        if (keep > 0) {
            char *to = static_cast<char *>(more.get()) - late().seen + late().real;
            char *from = static_cast<char *>(s.mutable_data()) - late().seen +
                         late().real;
            late().give(current, [to, from, keep] { memcpy(to, from, keep); });
        }
        const_cast<c10::Storage &>(s).set_data_ptr_noswap(std::move(more));
        const_cast<c10::Storage &>(s).set_nbytes(n);
    }
};

/* --- kernels --- */

bool is_late(const at::Tensor &t) { return t.defined() && t.device().type() == KIND; }

/* Where kernels work; of what lies on the host a copy as it is now. */
at::Tensor inside(const at::Tensor &t) {
    if (!t.defined()) return t;
    if (!is_late(t)) return t.device().is_cpu() ? t.detach().clone() : t;
    auto options = at::TensorOptions().dtype(t.dtype()).device(at::kCPU);
    if (t.numel() == 0) return at::empty_strided(t.sizes(), t.strides(), options);
    char *p = static_cast<char *>(const_cast<void *>(t.const_data_ptr())) - late().seen +
              late().real;
    return at::from_blob(p, t.sizes(), t.strides(), options);
}

at::Tensor shape_of(const at::Tensor &t) {
    if (!t.defined() || (t.device().is_cpu() && t.dim() == 0)) return t;
    return at::empty_strided(t.sizes(), t.strides(),
                             t.options().device(at::kMeta).pinned_memory(false));
}

at::Tensor room_for(const at::Tensor &t) {
    if (!t.defined()) return t;
    return at::empty_strided(t.sizes(), t.strides(),
                             t.options().device(c10::Device(KIND, 0)));
}

/* An argument or result with each of its tensors replaced. */
template <class F>
c10::IValue replaced(const c10::IValue &v, F f, c10::DeviceType where) {
    if (v.isTensor()) return f(v.toTensor());
    if (v.isTensorList()) {
        c10::List<at::Tensor> to;
        for (const at::Tensor &t : v.toTensorVector()) to.push_back(f(t));
        return to;
    }
    if (v.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> to;
        for (const std::optional<at::Tensor> &t : v.toOptionalTensorList())
            to.push_back(t.has_value() ? std::optional<at::Tensor>(f(*t)) : t);
        return to;
    }
    if (v.isDevice() && v.toDevice().type() == KIND) return c10::Device(where);
    return v;
}

std::vector<at::Tensor> tensors_of(const c10::IValue &v) {
    if (v.isTensor()) return {v.toTensor()};
    return v.isTensorList() ? v.toTensorVector() : std::vector<at::Tensor>();
}

/* Which argument a result is, or -1: it is new. */
int argument_of(const c10::FunctionSchema &schema, const c10::Argument &result) {
    if (result.alias_info() == nullptr) return -1;
    TORCH_CHECK(result.alias_info()->isWrite(), schema.name(),
                " makes a view, which is not written yet");
    for (size_t i = 0; i < schema.arguments().size(); i++) {
        const c10::AliasInfo *own = schema.arguments()[i].alias_info();
        if (own != nullptr && own->beforeSets() == result.alias_info()->beforeSets())
            return (int)i;
    }
    return -1;
}

void fill(const Stack &from, const Stack &to) {
    for (size_t i = 0; i < to.size(); i++) {
        if (to[i].isNone()) continue;
        auto ours = tensors_of(to[i]), theirs = tensors_of(from[i]);
        for (size_t k = 0; k < ours.size(); k++)
            if (ours[k].defined() && ours[k].numel() > 0) ours[k].copy_(theirs[k]);
    }
}

void give_kernel(const c10::OperatorHandle &op, Stack arguments, Stack results) {
    late().counts[KERNELS]++;
    late().give(current, [op, arguments, results]() {
        Stack stack = arguments;
        op.callBoxed(&stack);
        fill(stack, results);
    });
}

/* Shapes by the meta device; false: it can not say. */
bool shapes(const c10::OperatorHandle &op, const Stack &arguments, Stack *metas,
            Stack *results) {
    for (const auto &r : op.schema().returns())
        if (r.type()->kind() != c10::TypeKind::TensorType &&
            r.type()->kind() != c10::TypeKind::ListType)
            return false;
    for (const auto &v : arguments) metas->push_back(replaced(v, shape_of, at::kMeta));
    *results = *metas;
    try {
        op.callBoxed(results);
    } catch (const std::exception &) {
        return false;
    }
    return true;
}

/* The op with its arguments from the stack, and its results onto it. */
void run(const c10::OperatorHandle &op, Stack *stack, size_t n) {
    Stack arguments = torch::jit::pop(*stack, n), own, metas, results, kept;
    bool known = shapes(op, arguments, &metas, &results);
    for (size_t i = 0; known && i < n; i++) { /* out= that has grown */
        auto theirs = tensors_of(arguments[i]), now = tensors_of(metas[i]);
        for (size_t k = 0; k < theirs.size(); k++)
            if (is_late(theirs[k]) && theirs[k].sizes() != now[k].sizes())
                theirs[k].resize_(now[k].sizes());
    }
    for (const auto &v : arguments) own.push_back(replaced(v, inside, at::kCPU));
    if (!known) {
        late().wait(late().mark(current));
        results = own;
        op.callBoxed(&results);
    }
    const auto &returns = op.schema().returns();
    for (size_t i = 0; i < returns.size(); i++) {
        int which = argument_of(op.schema(), returns[i]);
        c10::IValue out = which >= 0 ? arguments[which]
                                     : replaced(results[i], room_for, KIND);
        kept.push_back(which >= 0 ? c10::IValue() : replaced(out, inside, at::kCPU));
        torch::jit::push(*stack, out);
    }
    if (known) {
        give_kernel(op, own, kept);
    } else {
        for (auto &k : kept)
            if (tensors_of(k).empty()) k = c10::IValue();
        fill(results, kept);
    }
}

void fallback(const c10::OperatorHandle &op, Stack *stack) {
    run(op, stack, op.schema().arguments().size());
}

void convolution(const c10::OperatorHandle &, Stack *stack) {
    run(c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", ""), stack,
        9);
}

void convolution_backward(const c10::OperatorHandle &, Stack *stack) {
    Stack arguments = torch::jit::pop(*stack, 10);
    const at::Tensor w = arguments[2].toTensor();
    bool transposed = arguments[6].toBool();
    int64_t n = transposed ? w.size(1) * arguments[8].toInt() : w.size(0);
    arguments.insert(arguments.begin() + 3, c10::IValue(std::vector<int64_t>{n}));
    for (auto &v : arguments) torch::jit::push(*stack, v);
    run(c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", ""),
        stack, 11);
}

/* Bytes cross in the type of where they go, as with CUDA. */
at::Tensor copy_from(const at::Tensor &self, const at::Tensor &dst, bool non_blocking) {
    if (dst.numel() == 0) return dst;
    Late &d = late();
    const at::Tensor &host = is_late(self) ? dst : self;
    if (is_late(self) && is_late(dst)) {
        at::Tensor from = inside(self), to = inside(dst);
        d.give(current, [from, to] { to.copy_(from); });
        return dst;
    }
    d.counts[is_late(self) ? DOWN : UP] += dst.numel() * dst.element_size();
    auto there = at::from_blob(const_cast<void *>(host.const_data_ptr()), host.sizes(),
                               host.strides(), at::TensorOptions().dtype(host.dtype()));
    at::Tensor from = is_late(self) ? inside(self) : there,
               to = is_late(self) ? there : inside(dst);
    d.give(current, [from, to] { to.copy_(from); });
    char *pin = d.pin_of(host.const_data_ptr());
    if (pin == nullptr || !non_blocking) {
        d.wait(d.mark(current));
        return dst;
    }
    Event at = d.mark(current);
    std::lock_guard<std::mutex> guard(d.lock);
    d.pinned_use[pin] = at;
    return dst;
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory,
                                     c10::DispatchKeySet(KEY),
                                     c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
    return at::detail::empty_strided_generic(
        C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
        c10::DispatchKeySet(KEY), c10::dtype_or_default(type));
}

at::Tensor as_strided(const at::Tensor &self, c10::SymIntArrayRef size,
                      c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
    return at::native::as_strided_tensorimpl(
        self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
        offset.has_value() ? std::optional<int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor view(const at::Tensor &self, c10::SymIntArrayRef size) {
    return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor reshape_alias(const at::Tensor &self, c10::SymIntArrayRef size,
                         c10::SymIntArrayRef stride) {
    return as_strided(self, size, stride, self.storage_offset());
}

const at::Tensor &resize_(const at::Tensor &self, c10::SymIntArrayRef size,
                          std::optional<at::MemoryFormat>) {
    auto sizes = C10_AS_INTARRAYREF_SLOW(size);
    size_t n = at::detail::computeStorageNbytesContiguous(sizes, self.dtype().itemsize(),
                                                          self.storage_offset());
    if (n > self.storage().nbytes())
        at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), n);
    self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return self;
}

at::Tensor &set_storage(at::Tensor &self, at::Storage source, c10::SymInt offset,
                        c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
    auto *impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(source));
    impl->set_storage_offset(offset.expect_int());
    impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size),
                                C10_AS_INTARRAYREF_SLOW(stride));
    return self;
}

void record_stream(at::Tensor &self, c10::Stream s) {
    Guard().recordDataPtrOnStream(self.storage().data_ptr(), s);
}

std::vector<int64_t> counts() {
    std::lock_guard<std::mutex> guard(late().lock);
    return {late().counts, late().counts + N_COUNTS};
}

} // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("as_strided", as_strided);
    m.impl("view", view);
    m.impl("_reshape_alias", reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("resize_", resize_);
    m.impl("set_.source_Storage_storage_offset", set_storage);
    m.impl("_copy_from", copy_from);
    m.impl("record_stream", record_stream);
    m.impl("convolution_overrideable",
           torch::CppFunction::makeFromBoxedFunction<&convolution>());
    m.impl("convolution_backward_overrideable",
           torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

TORCH_LIBRARY(late, m) {
    m.def("counts() -> int[]", counts);
    m.def("register() -> ()", [] { at::RegisterPrivateUse1HooksInterface(new Hooks()); });
}
