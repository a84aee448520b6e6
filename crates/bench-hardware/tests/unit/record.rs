//! What machine this is: environment, container, commit.

use super::*;
use std::fs;

#[test]
fn this_host_is_described_and_what_is_missing_has_a_reason() {
    let host = host_record(&Surroundings {
        gpus: Gpus::through("/nonexistent/libnvidia-ml.so.1"),
        ..Surroundings::default()
    });
    assert!(host.name.is_some() || host.unknown.contains_key("name"));
    assert!(host.cpus.unwrap() >= 1 && host.memory_bytes.unwrap() > 1 << 20);
    assert!(
        host.unknown["gpu"].contains("no NVML library"),
        "{:?}",
        host.unknown
    );
    assert!(host.unknown.values().all(|why| !why.is_empty()));
    assert!(
        !host.facts.contains_key("git.commit"),
        "no directory was named"
    );
}

#[test]
fn only_known_variables_are_stored_and_never_too_long() {
    let environment = [
        ("SLURM_JOB_ID", "42"),
        ("OPENAI_API_KEY", "sk-secret"),
        ("SLURM_JOB_NODELIST", &"n,".repeat(1000)),
        ("POD_NAME", ""),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()));
    let mut found = BTreeMap::new();
    facts(&environment.into(), &mut found);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        ["slurm.job_id", "slurm.nodes"]
    );
    assert_eq!(found["slurm.nodes"].len(), LONGEST);
}

#[test]
fn containers_are_known_by_what_they_leave_behind() {
    let root = tempfile::tempdir().unwrap();
    let kind = |environment: &BTreeMap<String, String>| {
        let mut found = BTreeMap::new();
        container(root.path(), environment, &mut found);
        found.remove("container")
    };
    assert_eq!(kind(&BTreeMap::new()), None);
    fs::write(root.path().join(".dockerenv"), "").unwrap();
    assert_eq!(kind(&BTreeMap::new()).as_deref(), Some("docker"));
    let pod = [("KUBERNETES_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned())].into();
    assert_eq!(kind(&pod).as_deref(), Some("kubernetes"));
}

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

fn repository(head: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join(".git/refs/heads")).unwrap();
    fs::create_dir_all(root.path().join("a/b")).unwrap();
    fs::write(root.path().join(".git/HEAD"), head).unwrap();
    root
}

#[test]
fn the_branch_and_its_commit_are_found_from_a_directory_below() {
    let root = repository("ref: refs/heads/main\n");
    fs::write(
        root.path().join(".git/refs/heads/main"),
        format!("{HASH}\n"),
    )
    .unwrap();
    let found = head(&root.path().join("a/b")).unwrap().unwrap();
    assert_eq!(
        (found.commit.as_str(), found.branch.as_deref()),
        (HASH, Some("main"))
    );
}

#[test]
fn packed_references_and_a_detached_head_are_read() {
    let root = repository("ref: refs/heads/topic/x\n");
    let packed = format!("# pack-refs with: peeled\n{HASH} refs/heads/topic/x\n");
    fs::write(root.path().join(".git/packed-refs"), packed).unwrap();
    assert_eq!(
        head(root.path()).unwrap().unwrap().branch.as_deref(),
        Some("topic/x")
    );
    let detached = repository(HASH);
    assert_eq!(head(detached.path()).unwrap().unwrap().branch, None);
}

#[test]
fn a_further_work_tree_finds_its_branch_in_the_common_directory() {
    let root = repository("ref: refs/heads/main\n");
    fs::write(root.path().join(".git/refs/heads/main"), HASH).unwrap();
    let own = root.path().join(".git/worktrees/w");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    let tree = tempfile::tempdir().unwrap();
    fs::write(
        tree.path().join(".git"),
        format!("gitdir: {}\n", own.display()),
    )
    .unwrap();
    assert_eq!(head(tree.path()).unwrap().unwrap().commit, HASH);
}

#[test]
fn no_repository_is_nothing_and_one_without_a_commit_says_so() {
    assert_eq!(head(Path::new("/nonexistent/x")), Ok(None));
    let empty = repository("ref: refs/heads/main\n");
    assert!(head(empty.path()).unwrap_err().contains("refs/heads/main"));
    assert!(head(repository("nonsense").path()).is_err());
}
