//! The files of the project and help for their editors, and the embedded pages.

pub(crate) mod assist;
pub(crate) mod editing;
pub(crate) mod embedded;
pub(crate) mod manual;
pub(crate) mod project_files;
pub(crate) mod test_drafts;
pub(crate) mod ui;
