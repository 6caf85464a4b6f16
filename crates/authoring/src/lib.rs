//! Help for authors: checks texts, edits them, completes them, and writes new ones. It works on texts and a catalog, and runs
//! nothing.
//!
//! Modules, in reading order:
//!
//! * `validate`: all checks with nothing running
//! * `test_suite`: finds, checks and writes test files
//! * `fix`: applies the fixes of diagnostics
//! * `project_file`: reads and replaces the files of a project
//! * `text_edit`: edits of texts that are not stored
//! * `assist`: completion, hovers and definitions for editors
//! * `inspect`: the structure of a text
//! * `preview`: schedules in words, and schemas
//! * `scaffold`: new automations

mod assist;
mod fix;
mod inspect;
mod preview;
mod project_file;
pub mod scaffold;
mod test_suite;
mod text_edit;
mod validate;

pub use assist::{
    AssistRequest, Completion, CompletionItem, Definition, Hover, TextRange, complete, definition, hover,
};
pub use fix::{FixedText, fix_text};
pub use inspect::{Inspection, StepPlace, Structure, inspect_text};
pub use preview::{ScheduleWords, preview_schedule, schema};
pub use project_file::{
    ExpectedVersion, FileError, MAX_FILE_BYTES, ProjectText, check_path, read_file, replace_text, version_of,
    write_file,
};
pub use test_suite::{
    TestFile, append_case, cassette_path, find_test_files, is_pattern, load_suite, read_test_files, start_of,
};
pub use text_edit::{TextChange, edit_text};
pub use validate::{ProjectCheck, check_draft, check_project, check_text};
