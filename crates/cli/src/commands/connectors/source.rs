//! The source of a shared connector: a commit of a git repository, or a folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use catalog::SHARED_MANIFEST;
use text::units::format_size;

use crate::exit::CommandError;

/// Maximum number of files of a shared connector.
const MAX_FILES: usize = 100;
/// Maximum size of all files of a shared connector together, in bytes.
const MAX_SIZE: u64 = 4 << 20;
/// Maximum depth of folders below `tests/`.
const MAX_DEPTH: usize = 8;
/// Maximum size of a listing of git, in bytes.
const MAX_LISTING: u64 = 16 << 20;
/// The protocols that git may use.
const PROTOCOLS: &str = "https:http:ssh:git:file";
/// Variables with which a hook of git names its own repository.
const OF_HOOKS: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"];

/// The files of a shared connector, by their paths in its folder.
pub(super) type SharedFiles = BTreeMap<String, Vec<u8>>;

/// An address on the command line, or in the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// A git repository or a folder.
    pub(super) source: String,
    /// A tag, branch or commit; `None` for a folder.
    pub(super) reference: Option<String>,
    /// The folder of the connector in the source.
    pub(super) folder: Option<String>,
}

/// The files at an address.
pub(super) struct Fetched {
    pub(super) files: SharedFiles,
    /// The id of the commit; `None` for a folder.
    pub(super) commit: Option<String>,
}

impl Address {
    /// Reads `SOURCE@REF`, or the path of a folder.
    ///
    /// # Errors
    /// Returns an error of usage if a git address has no reference, holds a credential, or cannot be passed to git.
    pub(super) fn parse(text: &str, folder: Option<String>) -> anyhow::Result<Self> {
        if let Some(folder) = &folder {
            check_folder(folder)?;
        }
        if Path::new(text).is_dir() {
            return Ok(Self { source: text.to_owned(), reference: None, folder });
        }
        let (source, reference) = split(text);
        let Some(reference) = reference else {
            return Err(CommandError::usage(format!(
                "`{text}` is no folder; name a version of a git repository: `{text}@TAG`, with a tag, a branch or a commit"
            )));
        };
        check_reference(reference)?;
        check_source(source)?;
        Ok(Self { source: source.to_owned(), reference: Some(reference.to_owned()), folder })
    }

    /// Reads the files. `dir` is the folder that relative paths begin at.
    ///
    /// # Errors
    /// The source cannot be read, has no connector, or is too large.
    pub(super) fn fetch(&self, dir: &Path) -> anyhow::Result<Fetched> {
        let fetched = match &self.reference {
            None => {
                let root = dir.join(&self.source).join(self.folder.as_deref().unwrap_or_default());
                Fetched { files: read_folder(&root)?, commit: None }
            }
            Some(reference) => {
                check_reference(reference)?;
                check_source(&self.source)?;
                self.fetch_commit(dir, reference)?
            }
        };
        anyhow::ensure!(
            fetched.files.contains_key(SHARED_MANIFEST),
            "`{}` has no file `{SHARED_MANIFEST}`; name the folder of the connector in it with --folder",
            self.shown()
        );
        Ok(fetched)
    }

    /// The address for people.
    pub(super) fn shown(&self) -> String {
        let reference = self.reference.as_ref().map(|name| format!("@{name}")).unwrap_or_default();
        let folder = self.folder.as_ref().map(|folder| format!(" ({folder})")).unwrap_or_default();
        format!("{}{reference}{folder}", self.source)
    }

    fn fetch_commit(&self, dir: &Path, reference: &str) -> anyhow::Result<Fetched> {
        let scratch = tempfile::tempdir().context("cannot make a folder for git")?;
        let git = Git { dir: scratch.path() };
        let source = match dir.join(&self.source) {
            path if path.is_dir() => path.display().to_string(),
            _ => self.source.clone(),
        };
        git.run(["init", "--quiet", "--bare", "--template="])?;
        let shallow = git.run(["fetch", "--quiet", "--no-tags", "--depth=1", "--", &source, reference]);
        let wanted = match shallow {
            Ok(_) => "FETCH_HEAD".to_owned(),
            // Not every server gives a commit by its id, and none gives one by the beginning of its id.
            Err(error) if !is_commit_id(reference) => return Err(error),
            Err(_) => {
                let all = ["+refs/heads/*:refs/remotes/source/*", "+refs/tags/*:refs/tags/*"];
                git.run(["fetch", "--quiet", "--", &source, all[0], all[1]])?;
                reference.to_owned()
            }
        };
        let commit = git.text(["rev-parse", "--verify", "--quiet", &format!("{wanted}^{{commit}}")])?;
        anyhow::ensure!(!commit.is_empty(), "`{}` has no commit `{reference}`", self.source);
        let tree = format!("{commit}:{}", self.folder.as_deref().unwrap_or_default());
        Ok(Fetched { files: git.files(&tree)?, commit: Some(commit) })
    }
}

/// Splits `SOURCE@REF`. `git@host:path` and `ssh://git@host/path` have an `@` of their own.
fn split(text: &str) -> (&str, Option<&str>) {
    let Some((source, reference)) = text.rsplit_once('@') else { return (text, None) };
    let is_user = source.split_once("://").is_some_and(|(_, host)| !host.contains('/'));
    if reference.contains(':') || is_user { (text, None) } else { (source, Some(reference)) }
}

fn check_reference(reference: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-+#".contains(c);
    if reference.starts_with(|c: char| c.is_ascii_alphanumeric()) && reference.chars().all(is_plain) {
        return Ok(());
    }
    Err(CommandError::usage(format!("`{reference}` is not the name of a tag, a branch or a commit")))
}

fn check_source(source: &str) -> anyhow::Result<()> {
    let authority = source.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    let holds_password = user.is_some_and(|user| user.contains(':') || source.starts_with("http"));
    if holds_password {
        return Err(CommandError::usage(
            "the address holds a credential, which the lock would keep; leave it out, and give it to git by a credential helper",
        ));
    }
    if source.is_empty() || source.contains("::") || source.chars().any(char::is_control) {
        return Err(CommandError::usage(format!("`{source}` is not the address of a git repository")));
    }
    Ok(())
}

fn check_folder(folder: &str) -> anyhow::Result<()> {
    let is_plain = |name: &str| {
        !matches!(name, "" | "." | "..") && !name.chars().any(|c| c.is_control() || ":\\".contains(c))
    };
    if folder.split('/').all(is_plain) {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "`{folder}` is not a folder in the source; write it like `connectors/shop`"
    )))
}

fn is_commit_id(reference: &str) -> bool {
    reference.len() >= 7 && reference.chars().all(|c| c.is_ascii_hexdigit())
}

/// True if a file belongs to a shared connector: its manifest, a text about it, or its tests.
fn is_shared(path: &str) -> bool {
    let is_plain =
        |name: &str| !name.is_empty() && !name.starts_with('.') && !name.chars().any(char::is_control);
    let is_top = [SHARED_MANIFEST, "README.md", "LICENSE", "LICENSE.md", "LICENSE.txt"].contains(&path);
    is_top || (path.starts_with("tests/") && path.split('/').all(is_plain))
}

/// Refuses files beyond the limits of a connector.
fn add(files: &mut SharedFiles, path: String, content: Vec<u8>) -> anyhow::Result<()> {
    let size: u64 = files.values().chain([&content]).map(|content| content.len() as u64).sum();
    anyhow::ensure!(size <= MAX_SIZE, "the connector has more than {}", format_size(MAX_SIZE));
    files.insert(path, content);
    anyhow::ensure!(files.len() <= MAX_FILES, "the connector has more than {MAX_FILES} files");
    Ok(())
}

/// Reads the files of a folder. Links are not followed.
pub(super) fn read_folder(root: &Path) -> anyhow::Result<SharedFiles> {
    let mut files = SharedFiles::new();
    walk(root, "", MAX_DEPTH, &mut files)?;
    Ok(files)
}

fn walk(root: &Path, below: &str, depth: usize, files: &mut SharedFiles) -> anyhow::Result<()> {
    let folder = root.join(below);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let Some(name) = name.to_str() else { continue };
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        if kind.is_dir() && depth > 0 && is_shared(&format!("{path}/x")) {
            walk(root, &path, depth - 1, files)?;
        } else if kind.is_file() && is_shared(&path) {
            let mut content = Vec::new();
            fs::File::open(entry.path())?.take(MAX_SIZE + 1).read_to_end(&mut content)?;
            add(files, path, content)?;
        }
    }
    Ok(())
}

/// The installed git, on a bare repository without hooks. No file is checked out: no filter, link or hook of the source is ever used.
struct Git<'a> {
    dir: &'a Path,
}

impl Git<'_> {
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new("git");
        for name in OF_HOOKS {
            command.env_remove(name);
        }
        let mut child = command
            .args(["-c", "http.lowSpeedLimit=100", "-c", "http.lowSpeedTime=60"])
            .arg("-C")
            .arg(self.dir)
            .args(arguments)
            .env("GIT_ALLOW_PROTOCOL", PROTOCOLS)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run `git`, which reads the repositories of connectors; install it")?;
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(MAX_LISTING + 1).read_to_end(&mut output)?;
        }
        if output.len() as u64 > MAX_LISTING {
            let _ = child.kill();
        }
        let status = child.wait()?;
        anyhow::ensure!(
            output.len() as u64 <= MAX_LISTING,
            "git gave more than {}",
            format_size(MAX_LISTING)
        );
        anyhow::ensure!(status.success(), "git failed ({status}); it says why above");
        Ok(output)
    }

    fn text<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> anyhow::Result<String> {
        Ok(String::from_utf8(self.run(arguments)?)?.trim().to_owned())
    }

    /// Reads the files of a connector from a tree.
    fn files(&self, tree: &str) -> anyhow::Result<SharedFiles> {
        let mut files = SharedFiles::new();
        let listing = String::from_utf8(self.run(["ls-tree", "-r", "-l", "-z", tree])?)?;
        for line in listing.split('\0').filter(|line| !line.is_empty()) {
            // `100644 blob ID   SIZE<tab>PATH`
            let Some((facts, path)) = line.split_once('\t') else { continue };
            let facts: Vec<&str> = facts.split_whitespace().collect();
            let [mode, "blob", id, size] = facts.as_slice() else { continue };
            if !is_shared(path) || !mode.starts_with("100") {
                continue;
            }
            let size: u64 = size.parse()?;
            anyhow::ensure!(size <= MAX_SIZE, "`{path}` is larger than {}", format_size(MAX_SIZE));
            add(&mut files, path.to_owned(), self.run(["cat-file", "blob", id])?)?;
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_behind_the_last_at_sign_that_is_no_user() {
        for (text, source, reference) in [
            ("https://git.example.com/shop.git@v1.2", "https://git.example.com/shop.git", Some("v1.2")),
            ("git@git.example.com:acme/shop@main", "git@git.example.com:acme/shop", Some("main")),
            ("git@git.example.com:acme/shop", "git@git.example.com:acme/shop", None),
            ("ssh://git@git.example.com/shop", "ssh://git@git.example.com/shop", None),
            ("ssh://git@git.example.com/shop@a/b", "ssh://git@git.example.com/shop", Some("a/b")),
            ("../connectors@1f2e3d4", "../connectors", Some("1f2e3d4")),
        ] {
            assert_eq!(split(text), (source, reference), "{text}");
        }
    }

    #[test]
    fn an_address_that_is_an_option_or_holds_a_credential_is_refused() {
        for text in [
            "https://token@git.example.com/shop.git@v1",
            "https://a:b@git.example.com/shop.git@v1",
            "ssh://a:b@git.example.com/shop.git@v1",
            "ext::sh -c true@v1",
            "https://git.example.com/shop.git@--upload-pack=x",
            "https://git.example.com/shop.git@+main",
            "https://git.example.com/shop.git",
        ] {
            assert!(Address::parse(text, None).is_err(), "{text}");
        }
        for folder in ["../x", "/x", "a//b", "a:b", ""] {
            assert!(Address::parse("https://a.example/b@v1", Some(folder.to_owned())).is_err(), "{folder}");
        }
        assert!(Address::parse("https://a.example/b@v1", Some("connectors/shop".to_owned())).is_ok());
    }

    #[test]
    fn the_manifest_the_text_and_the_tests_belong_to_a_connector() {
        for (path, expected) in [
            ("connector.yaml", true),
            ("README.md", true),
            ("tests/openapi/shop.json", true),
            ("tests/../x", false),
            ("tests/.git/config", false),
            ("install.sh", false),
            (".github/x.yaml", false),
        ] {
            assert_eq!(is_shared(path), expected, "{path}");
        }
    }

    #[test]
    fn a_connector_has_limits() {
        let mut files = SharedFiles::new();
        let whole = usize::try_from(MAX_SIZE).expect("it fits");
        assert!(add(&mut files, "a".to_owned(), vec![0; whole]).is_ok());
        assert!(add(&mut files, "b".to_owned(), vec![0]).is_err());
        let mut files = SharedFiles::new();
        for index in 0..MAX_FILES {
            assert!(add(&mut files, index.to_string(), Vec::new()).is_ok());
        }
        assert!(add(&mut files, "more".to_owned(), Vec::new()).is_err());
    }
}
