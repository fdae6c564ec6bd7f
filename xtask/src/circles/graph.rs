//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// The strongly connected components of at least two nodes, each in ascending order.
pub(super) fn circles(edges: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        next.keys().map(|node| (*node, reached_from(*node, &next))).collect();
    let reaches = |from: &usize, to: &usize| reached.get(from).is_some_and(|reached| reached.contains(to));
    let mut found: Vec<Vec<usize>> = Vec::new();
    for node in reached.keys() {
        if found.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        let others = reached.keys().filter(|other| reaches(node, other) && reaches(other, node));
        let circle: Vec<usize> = others.copied().collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

fn reached_from(node: usize, next: &BTreeMap<usize, BTreeSet<usize>>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        open.extend(next.get(&node).into_iter().flatten().filter(|other| reached.insert(**other)));
    }
    reached
}
