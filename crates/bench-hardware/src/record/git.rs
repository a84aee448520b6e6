//! The commit of a working directory, read from `.git` itself: `git` may not be installed where benchmarks run.

use std::path::{Path, PathBuf};

use crate::kernel::text;

/// What `HEAD` points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) commit: String,
    /// Absent where no branch is checked out.
    pub(super) branch: Option<String>,
}

/// The commit that is checked out in `directory` or above it; `None` where that is no working tree.
///
/// # Errors
/// Why a repository that is there cannot be read: no commit yet, a format that this does not know (reftable).
pub(super) fn head(directory: &Path) -> Result<Option<Head>, String> {
    let Some(git) = directory.ancestors().find_map(git_directory) else {
        return Ok(None);
    };
    let head = text(&git.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else {
        return Ok(Some(Head {
            commit: commit(&head)?,
            branch: None,
        }));
    };
    // In a further work tree, references are kept in the common directory.
    let common = match text(&git.join("commondir")) {
        Ok(path) => git.join(path),
        Err(_) => git,
    };
    let loose = text(&common.join(reference));
    let hash = match loose {
        Ok(hash) => hash,
        Err(_) => packed(&common, reference)?,
    };
    Ok(Some(Head {
        commit: commit(&hash)?,
        branch: reference.strip_prefix("refs/heads/").map(str::to_owned),
    }))
}

/// `.git` is a directory, or a file that names one (work trees, submodules).
fn git_directory(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let named = text(&git).ok()?;
    Some(directory.join(named.strip_prefix("gitdir: ")?))
}

fn packed(git: &Path, reference: &str) -> Result<String, String> {
    let refs = text(&git.join("packed-refs"))
        .map_err(|_| format!("{reference} has no commit that can be read"))?;
    refs.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(_, name)| *name == reference)
        .map(|(hash, _)| hash.to_owned())
        .ok_or_else(|| format!("{reference} has no commit that can be read"))
}

fn commit(hash: &str) -> Result<String, String> {
    let hexadecimal = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal && matches!(hash.len(), 40 | 64) {
        Ok(hash.to_owned())
    } else {
        Err("HEAD does not lead to a commit".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
}
