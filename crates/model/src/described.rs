//! Statements as a database described them: the file `connections/NAME.types.yaml`.

use std::collections::BTreeMap;

/// The statements of a connection, by their text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedStatements {
    /// Each statement with its description.
    pub statements: BTreeMap<String, DescribedStatement>,
}

/// The parameters and columns of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedStatement {
    /// The parameters with their types, in order; none if the database states no types.
    pub parameters: Vec<NamedType>,
    /// The columns with their types, in order.
    pub columns: Vec<NamedType>,
}

/// A name and a type in the words of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedType {
    /// The name.
    pub name: String,
    /// The type.
    pub kind: String,
}

/// The first step that runs a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementPlace {
    /// Path of the file, relative to the project folder.
    pub path: String,
    /// Id of the step.
    pub step: String,
}
