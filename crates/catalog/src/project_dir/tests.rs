use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use pretty_assertions::assert_eq;

use super::*;

const SECRET: &str = "outside";

/// A folder with a file `secret` and a folder `beside`, and in it a project with `automations/a.yaml`.
fn project() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("project");
    fs::create_dir_all(root.join("automations/sub")).expect("folders");
    fs::create_dir(folder.path().join("beside")).expect("a folder");
    for path in ["secret", "beside/x.yaml"] {
        fs::write(folder.path().join(path), SECRET).expect("written");
    }
    fs::write(root.join("automations/a.yaml"), "inside").expect("written");
    (folder, root)
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    let content = read_project_file(root, Path::new(path), 100).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(content).expect("text"))
}

fn link(root: &Path, target: impl AsRef<Path>, path: &str) {
    symlink(target, root.join("automations").join(path)).expect("a link");
}

#[test]
fn a_link_to_a_file_of_the_project_is_followed() {
    let (_kept, root) = project();
    fs::create_dir(root.join("connectors")).expect("a folder");
    fs::write(root.join("connectors/b.yaml"), "beside").expect("written");
    link(&root, "a.yaml", "same.yaml");
    link(&root, "../connectors/b.yaml", "above.yaml");
    link(&root, "../connectors", "folder");
    link(&root, "same.yaml", "twice.yaml");
    link(&root, root.join("automations/a.yaml"), "absolute.yaml");
    link(&root, "sub/../../automations/a.yaml", "about.yaml");
    for (path, content) in [
        ("same.yaml", "inside"),
        ("above.yaml", "beside"),
        ("folder/b.yaml", "beside"),
        ("twice.yaml", "inside"),
        ("absolute.yaml", "inside"),
        ("about.yaml", "inside"),
    ] {
        assert_eq!(read(&root, &format!("automations/{path}")).as_deref(), Ok(content), "{path}");
    }
}

#[test]
fn a_link_out_of_the_project_is_reported_and_never_read() {
    let (kept, root) = project();
    link(&root, "../../secret", "relative.yaml");
    link(&root, kept.path().join("secret"), "absolute.yaml");
    link(&root, "../../beside", "folder");
    link(&root, "relative.yaml", "twice.yaml");
    link(&root, "../../project/automations/a.yaml", "back.yaml");
    link(&root, "sub/../../../secret", "about.yaml");
    link(&root, "/proc/self/environ", "proc.yaml");
    for (path, named) in [
        ("relative.yaml", "relative.yaml"),
        ("absolute.yaml", "absolute.yaml"),
        ("folder/x.yaml", "folder"),
        ("twice.yaml", "relative.yaml"),
        ("back.yaml", "back.yaml"),
        ("about.yaml", "about.yaml"),
        ("proc.yaml", "proc.yaml"),
    ] {
        let error = read(&root, &format!("automations/{path}")).expect_err(path);
        let link = format!("the link `automations/{named}` leads out of the project folder");
        assert!(error.starts_with(&link), "{path}: {error}");
        assert!(!error.contains(SECRET), "{path}: {error}");
    }
    assert!(read(&root, "../secret").is_err());
    assert!(read(&root, kept.path().join("secret").to_str().expect("text")).is_err());
    assert!(check_project_target(&root, Path::new("automations/relative.yaml")).is_err());
    assert!(check_project_target(&root, Path::new("automations/folder/new.yaml")).is_err());
    assert!(check_project_target(&root, Path::new("automations/new/new.yaml")).is_ok());
}

#[test]
fn only_project_files_inside_the_project_folder_are_read() {
    let (_kept, root) = project();
    for path in [
        ".cogwork/master.key",
        ".cogwork/x.yaml",
        "secrets/wiki.yaml",
        "data/cogwork.db",
        "cogwork.yaml",
        ".git/config",
        "notes/x.yaml",
        "automations/.env",
        "automations/.hidden/x.yaml",
        "automations/server.key",
        "payloads/test/x.json",
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, SECRET).expect("written");
    }
    let refused = |path: &str, words: &str| {
        let error = read(&root, path).expect_err(path);
        assert!(error.contains(words) && !error.contains(SECRET), "{path}: {error}");
        assert!(check_project_target(&root, Path::new(path)).is_err(), "{path}");
    };
    for (number, target) in [
        "../.cogwork/master.key",
        "../secrets/wiki.yaml",
        "../data/cogwork.db",
        "../cogwork.yaml",
        "../.git/config",
        "../notes/x.yaml",
        ".env",
        ".hidden/x.yaml",
        "server.key",
        "sub/../../.cogwork/x.yaml",
        "../payloads/test/x.json",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{number}.yaml");
        link(&root, target, &name);
        refused(&format!("automations/{name}"), &format!("the link `automations/{name}` leads to `"));
    }
    link(&root, "../.cogwork", "folder");
    link(&root, "0.yaml", "twice.yaml");
    refused("automations/folder/x.yaml", "the link `automations/folder/x.yaml` leads to `.cogwork/x.yaml`");
    refused("automations/twice.yaml", "leads to `.cogwork/master.key`");
    symlink("../../.cogwork/master.key", root.join("payloads/test/k.json")).expect("a link");
    refused("payloads/test/k.json", "the link `payloads/test/k.json` leads to `.cogwork/master.key`");
    for path in
        [".cogwork/master.key", "automations/../secrets/wiki.yaml", "cogwork.yaml", "automations/.env"]
    {
        refused(path, "is not a project file");
    }
    let entries = list(&root, Path::new("automations")).expect("a list");
    let followed =
        entries.iter().filter(|entry| entry.kind.is_ok()).map(|entry| entry.name.to_string_lossy());
    let mut followed: Vec<_> = followed.collect();
    followed.sort();
    assert_eq!(followed, [".env", ".hidden", "a.yaml", "server.key", "sub"]);
}

#[test]
fn a_pipe_a_socket_and_a_device_are_never_opened() {
    let (_kept, root) = project();
    let pipe = root.join("automations/pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let _socket = UnixListener::bind(root.join("automations/socket.yaml")).expect("a socket");
    link(&root, "pipe.yaml", "link.yaml");
    for path in ["pipe.yaml", "socket.yaml", "link.yaml", "sub"] {
        let error = read(&root, &format!("automations/{path}")).expect_err(path);
        assert_eq!(error, "it is not a regular file", "{path}");
    }
    let names: Vec<_> =
        list(&root, Path::new("automations")).expect("a list").into_iter().map(|entry| entry.name).collect();
    assert!(names.iter().all(|name| name == "a.yaml" || name == "sub"), "{names:?}");
}

#[test]
fn a_cycle_of_links_is_an_error() {
    let (_kept, root) = project();
    link(&root, "two.yaml", "one.yaml");
    link(&root, "one.yaml", "two.yaml");
    assert!(read(&root, "automations/one.yaml").is_err());
}

#[test]
fn a_file_over_the_read_limit_is_an_error() {
    let (_kept, root) = project();
    let error = read_project_file(&root, Path::new("automations/a.yaml"), 5).expect_err("too large");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(read_start(&root, Path::new("automations/a.yaml"), 2).expect("read"), b"in");
}

#[test]
fn files_in_a_new_folder_can_be_created_concurrently() {
    let (_kept, root) = project();
    for round in 0..50 {
        let start = std::sync::Barrier::new(4);
        let create = |number: usize| {
            let path = format!("payloads/x{round}/{number}.json");
            start.wait();
            ProjectTarget::open(&root, Path::new(&path), true).map(drop)
        };
        std::thread::scope(|scope| {
            let create = &create;
            let threads = [0, 1, 2, 3].map(|number| scope.spawn(move || create(number)));
            for thread in threads {
                thread.join().expect("no panic").expect("opened");
            }
        });
    }
}
