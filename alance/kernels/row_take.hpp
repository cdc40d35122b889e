// Rows of a group of a plan, decoded from the bytes of the chunks that hold them.
#pragma once
#include "row_needs.hpp"
#include "row_plan.hpp"

namespace alance {

// Decodes rows of a page from the bytes of the chunks that hold them, one behind the other.
inline void take_from(const RowPage& page, const uint8_t*& bytes, const uint8_t* end,
                      const int64_t* rows, int64_t first, int64_t last, Sink& sink) {
  for (const needs::Need& need : needs::needs_of(page, rows, first, last)) {
    const int64_t size = page.begin_of(need.chunk + 1) - page.begin_of(need.chunk);
    check_span(0, size, end - bytes, "chunk");
    page.decode(need.chunk, {bytes, size}, rows + need.first, need.last - need.first, need.open,
                sink);
    bytes += size;
  }
}

// Appends the rows of a group, whose bytes begin at `bytes`; that is moved behind them. `page` is
// the number of the page, in the plan's list, that is decoded: an error is in it.
inline void take_group(const RowPlan& plan, size_t number, const uint8_t*& bytes, Sink& sink,
                       size_t& page) {
  const RowPlan::Group& group = plan.groups[number];
  const uint8_t* end = bytes + (group.bytes_end - plan.first_byte(number));
  for (size_t i = plan.first_part(number); i < group.parts_end; ++i) {
    const RowPlan::Part& part = plan.parts[i];
    const RowPage& kernel = *plan.hits[part.hit].kernel;
    page = part.hit;
    if (kernel.width() != sink.width) corrupt("row sink: pages of different width");
    take_from(kernel, bytes, end, plan.rows.data(), part.first, part.last, sink);
  }
  bytes = end;
}

}  // namespace alance
