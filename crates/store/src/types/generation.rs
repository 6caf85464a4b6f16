//! Generations: the files of the project as they were deployed into the store, one after the other.

use jiff::Timestamp;

/// A file of a deployed project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedFile {
    /// The path relative to the project folder, separated by `/`.
    pub path: String,
    /// The text.
    pub text: String,
}

/// The way in which a generation came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationSource {
    /// A person or a program deployed a project folder.
    Push,
    /// A daemon deployed its own folder.
    Folder,
    /// A file was changed over the API or in the web UI.
    Edit,
    /// An earlier generation was deployed again.
    Restore,
}

/// A generation to deploy.
#[derive(Clone, Debug)]
pub struct NewGeneration {
    /// The id of the request, by which a repetition of it is recognised.
    pub id: [u8; 16],
    /// The number of the generation that it follows; 0 if it is the first.
    pub follows: u64,
    /// The name of the person or program that deploys it.
    pub author: String,
    /// Its description.
    pub note: String,
    /// The way in which it came about.
    pub source: GenerationSource,
    /// All files of the project.
    pub files: Vec<DeployedFile>,
}

/// A stored generation without its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number. They begin with 1 and have no gaps.
    pub number: u64,
    /// The time at which it was deployed, by the clock of the database.
    pub at: Timestamp,
    /// The name of the person or program that deployed it.
    pub author: String,
    /// Its description.
    pub note: String,
    /// The way in which it came about.
    pub source: GenerationSource,
    /// The number of its files.
    pub files: u32,
}

/// The result of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeployOutcome {
    /// The generation is stored.
    Deployed(Generation),
    /// Another generation than the expected one is the newest: nothing was stored.
    Overtaken,
}

/// The generation that a node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningGeneration {
    /// Its number; `None` if the node runs the files of its own folder.
    pub number: Option<u64>,
    /// The reason why the node does not run the newest one; `None` if it does.
    pub problem: Option<String>,
}

impl GenerationSource {
    const WORDS: [(Self, &str); 4] =
        [(Self::Push, "push"), (Self::Folder, "folder"), (Self::Edit, "edit"), (Self::Restore, "restore")];

    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(source, _)| *source == self).map_or("", |(_, word)| word)
    }

    /// Returns the source with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(source, _)| *source)
    }
}
