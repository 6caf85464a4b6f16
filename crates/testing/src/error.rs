//! The error of a test that could not run.

use model::automation::SpannedName;
use model::test_suite::Case;
use text::Span;
use text::diagnostic::Diagnostic;

/// Reason why a test could not run.
#[derive(Debug)]
pub(super) struct TestError {
    pub(super) message: String,
    /// Position in the test file.
    pub(super) span: Span,
    pub(super) help: Option<String>,
}

impl TestError {
    pub(super) fn new(case: &Case, message: String) -> Self {
        Self { message, span: case.name.span, help: None }
    }

    pub(super) fn no_recording(name: &SpannedName) -> Self {
        Self {
            message: format!("there is no recording `{}` yet", name.name),
            span: name.span,
            help: Some("make it with `cogwork test --record`, which calls the real system".to_owned()),
        }
    }

    /// Creates an error of the environment, not of the test.
    pub(super) fn system(what: &str, error: &dyn std::fmt::Display) -> Self {
        Self { message: format!("{what}: {error}"), span: Span::default(), help: None }
    }

    pub(super) fn store(error: store::Error) -> Self {
        Self::system("the store of the test failed", &error)
    }

    pub(super) fn engine(error: runtime::Error) -> Self {
        Self::system("the engine of the test failed", &error)
    }

    pub(super) fn diagnostic(self) -> Diagnostic {
        let diagnostic = Diagnostic::error("cannot-play", self.message, self.span);
        match self.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}
