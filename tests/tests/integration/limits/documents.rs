//! Documents and their workers: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "a document in a [worker]",
        elsewhere(
            &[
                (
                    "crates/systems/tests/documents/workers.rs",
                    "a_document_that_needs_too_much_memory_is_an_error_of_the_kind_limit",
                ),
                (
                    "crates/script/tests/suite/tasks.rs",
                    "a_task_that_crashes_hangs_or_takes_too_much_is_an_error",
                ),
            ],
            &[
                ("crates/systems/src/documents/job.rs", "const MEMORY: u64 = 192 << 20;"),
                (
                    "crates/systems/src/documents/host.rs",
                    "const MAX_TIME: Duration = Duration::from_secs(60);",
                ),
                ("crates/systems/src/documents/host.rs", "const MAX_WORKERS: usize = 2;"),
                (
                    "crates/systems/src/documents/host.rs",
                    "const MAX_WAIT: Duration = Duration::from_secs(15 * 60);",
                ),
            ],
        ),
    ),
    (
        "files of an archive",
        elsewhere(
            &[
                ("crates/systems/tests/documents/archives.rs", "a_bomb_is_an_error_of_the_kind_limit"),
                ("crates/systems/src/documents/worker/archive.rs", "a_name_stays_inside_of_its_archive"),
            ],
            &[
                ("crates/systems/src/documents/job.rs", "const MAX_ENTRIES: usize = 10_000;"),
                ("crates/systems/src/documents/job.rs", "const MAX_UNPACKED: u64 = 512 << 20;"),
                ("crates/systems/src/documents/job.rs", "const MAX_RATIO: u64 = 200;"),
                ("crates/systems/src/documents/worker/archive.rs", "const MAX_NAME: usize = 1_024;"),
            ],
        ),
    ),
    (
        "cells of a sheet or a table",
        elsewhere(
            &[
                ("crates/systems/tests/documents/workers.rs", "a_sheet_has_a_limit_of_cells"),
                ("crates/systems/tests/documents/sheets.rs", "a_sheet_that_cannot_be_written_names_its_cell"),
                (
                    "crates/systems/tests/documents/csv.rs",
                    "a_row_that_cannot_be_meant_is_an_error_that_names_its_line",
                ),
            ],
            &[
                ("crates/systems/src/documents/job.rs", "const MAX_CELLS: usize = 2_000_000;"),
                ("crates/systems/src/csv/read.rs", "const MAX_CELLS: usize = 16_384;"),
                ("crates/systems/src/sql/rows.rs", "const MAX_ROW: usize = 16 << 20;"),
                ("crates/systems/src/documents/worker/rows.rs", "const MAX_CELL: usize = 1 << 20;"),
                ("crates/systems/src/documents/worker/sheet/write.rs", "const MAX_TEXT: usize = 32_767;"),
            ],
        ),
    ),
    (
        "an HTML page",
        elsewhere(
            &[("crates/systems/tests/documents/html.rs", "a_page_has_a_limit_of_nodes_and_of_depth")],
            &[
                ("crates/systems/src/documents/job.rs", "const MAX_NODES: usize = 500_000;"),
                ("crates/systems/src/documents/worker/html.rs", "const MAX_PAGE: u64 = 32 << 20;"),
                ("crates/systems/src/documents/worker/html.rs", "const MAX_DEPTH: usize = 2_000;"),
                ("crates/systems/src/documents/job.rs", "const MAX_JSON: usize = 7 << 20;"),
            ],
        ),
    ),
];
