// EventQueue: events in the order of their times; those of one time in a fixed order.
//
// In a simulation of equal ranks thousands of events have the same time: they share one entry of the heap.
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::comm {

template <typename Event>
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }

  /// Precondition: !empty().
  double next_time() const { return heap_.front().time; }

  void push(double time, const Event& event) {
    if (heap_.empty() || newest_time_ != time || !newest_is_open_) open(time);
    batches_[newest_].events.push_back(event);
  }

  /// The earliest event. Precondition: !empty().
  Event pop() {
    const Entry first = heap_.front();
    Batch& batch = batches_[first.batch];
    const Event event = batch.events[batch.next++];
    if (batch.next == batch.events.size()) close(first.batch);
    return event;
  }

 private:
  struct Entry {
    double time;
    std::uint64_t number;  // of the batch, in the order of opening
    std::uint32_t batch;
  };
  struct Batch {
    std::vector<Event> events;
    std::size_t next = 0;
  };

  static bool is_later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  void open(double time) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(batches_.size()));
      batches_.emplace_back();
    }
    newest_ = free_.back();
    free_.pop_back();
    newest_time_ = time;
    newest_is_open_ = true;
    heap_.push_back({time, opened_++, newest_});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }

  void close(std::uint32_t batch) {
    batches_[batch].events.clear();
    batches_[batch].next = 0;
    free_.push_back(batch);
    if (batch == newest_) newest_is_open_ = false;
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    heap_.pop_back();
  }

  std::vector<Entry> heap_;
  std::vector<Batch> batches_;
  std::vector<std::uint32_t> free_;  // batches without events
  std::uint64_t opened_ = 0;
  std::uint32_t newest_ = 0;
  double newest_time_ = 0;
  bool newest_is_open_ = false;
};

}  // namespace tutti::comm
