//! The OpenAPI 3.1 description of the admin API. The program contains the file: the code that generates it is as large as the
//! code of all routes, so only the tests contain that.

#[cfg(test)]
mod tests;

/// The description, as JSON.
#[must_use]
pub fn openapi() -> &'static str {
    include_str!("../../../../../schemas/openapi.json")
}
