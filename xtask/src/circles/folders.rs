//! Folders of a crate that import from each other, directly or through other folders beside them.
//!
//! A folder is a floor of its crate: a reader may read the lower one without the upper one, and it can become a crate of its own. Compared
//! are folders that lie in the same folder, each with everything below it. A file beside folders is on no floor, as it may tie them together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::graph;

/// What a file in one folder imports from a file in another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// The folders, which lie in the same folder.
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    pub(super) importer: PathBuf,
    pub(super) definer: PathBuf,
    pub(super) names: BTreeSet<String>,
}

/// Every use between two folders of a circle, circle by circle.
pub(super) fn circles(uses: Vec<Use>) -> Vec<Vec<Use>> {
    let folders: BTreeSet<PathBuf> = uses.iter().flat_map(|used| [&used.from, &used.to]).cloned().collect();
    let numbers: BTreeMap<PathBuf, usize> =
        (0..).zip(folders).map(|(number, folder)| (folder, number)).collect();
    let ends = |used: &Use| (numbers[&used.from], numbers[&used.to]);
    let circles = graph::circles(uses.iter().map(ends));
    let mut uses = uses;
    let inside = |circle: Vec<usize>| {
        let is_inside =
            |used: &mut Use| circle.contains(&numbers[&used.from]) && circle.contains(&numbers[&used.to]);
        uses.extract_if(.., is_inside).collect()
    };
    circles.into_iter().map(inside).collect()
}

impl Use {
    /// `None` if the files are not in two folders that lie in the same folder.
    pub(super) fn between(importer: &Path, definer: &Path, names: &BTreeSet<String>) -> Option<Use> {
        let (from, to) = folders(importer, definer)?;
        Some(Use {
            from,
            to,
            importer: importer.to_owned(),
            definer: definer.to_owned(),
            names: names.clone(),
        })
    }

    /// `a/one.rs imports Two from b/two.rs`, with file names relative to `root`.
    pub(super) fn shown_below(&self, root: &Path) -> String {
        let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        format!("{} imports {} from {}", name(&self.importer), names.join(", "), name(&self.definer))
    }
}

/// The first folders in which the paths of two files differ.
fn folders(importer: &Path, definer: &Path) -> Option<(PathBuf, PathBuf)> {
    let (importer, definer) = (importer.parent()?, definer.parent()?);
    let same =
        importer.components().zip(definer.components()).take_while(|(one, other)| one == other).count();
    let first = |folder: &Path| {
        let is_below = folder.components().count() > same;
        is_below.then(|| folder.components().take(same + 1).collect::<PathBuf>())
    };
    Some((first(importer)?, first(definer)?))
}
