//! Sheets of workbooks.
//!
//! * `read`: the cells of a sheet, from xlsx, ods and xls
//! * `cell`: the value of a cell
//! * `write`: workbooks of the format xlsx
//! * `package`: the parts of such a workbook beside its sheets
//! * `format`: the formats of columns

mod cell;
mod format;
mod package;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;
