// Decoding of the rows of a part of a plan, from the bytes of the chunks that hold them.
#pragma once
#include "rows/row_needs.hpp"
#include "rows/row_plan.hpp"
#include "rows/sparse_rows.hpp"

namespace alance {

// Decode the rows of a part from its bytes. Calls `done` after each chunk.
template <typename Done>
void take_part(const RowPlan& plan, const RowPlan::Part& part, cells::Part own, Sink& sink, const Done& done) {
  const RowPage& page = *plan.hits[part.hit].page;
  if (!page.gives(sink.distinct ? sink.distinct->width : sink.width))
    corrupt("row sink: pages of different width");
  const Rows rows = plan.rows_of(part);
  page.prepare();
  page.enter(sink, rows.count);
  const uint8_t *bytes = own.data, *const end = own.data + own.size;
  if (page.slots() != nullptr) {
    sparse::take(page, rows, bytes, end, sink);
    return done(part);
  }
  for (const needs::Need& need : needs::needs_of(page, rows)) {
    const int64_t size = need.bytes.stop - need.bytes.start;
    check_span(0, size, end - bytes, "chunk");
    page.decode(need.chunk, {bytes, size}, rows.part(need.first, need.last), need.open, sink);
    bytes += size;
    done(part);
  }
}

// Append the rows of a group, whose bytes begin at `bytes`. `page` is the number, in the plan's list,
// of the page that is being decoded: an error is in it.
template <typename Done>
void take_group(const RowPlan& plan, size_t number, const uint8_t* bytes, Sink& sink, size_t& page,
                const Done& done) {
  const RowPlan::Group& group = plan.groups[number];
  for (size_t i = plan.first_part(number); i < group.parts_end; ++i) {
    const RowPlan::Part& part = plan.parts[i];
    page = part.hit;
    take_part(plan, part, {bytes, part.num_bytes}, sink, done);
    bytes += part.num_bytes;
  }
}

}  // namespace alance
