//! A radix tree of topic prefixes, and the subscribers of each.
//!
//! A node stands for a prefix: the bytes on the way from the root to it. It exists if somebody subscribes to that
//! prefix, or if several longer prefixes part there. So the tree has at most two nodes for each prefix.
//!
//! The number of a node with subscribers stays the same until its last subscriber is removed: when an edge is split, or
//! two edges are joined, the lower node keeps its number.

use std::iter;

use slab::Slab;

use super::place_set::PlaceSet;

pub(super) type NodeNumber = u32;

/// The node of the empty prefix. It always exists.
const ROOT: NodeNumber = 0;

/// A list of children gives memory back when it has room for so many times what it holds.
const SPARE_FACTOR: usize = 4;

/// A prefix, without the bytes that its parent stands for.
#[derive(Debug, Default)]
struct Node {
    parent: NodeNumber,
    /// The first byte of the edge from the parent. No other child of the parent has it.
    byte: u8,
    /// The other bytes of the edge.
    label: Box<[u8]>,
    /// The first byte of the edge to each child, in ascending order, and the child.
    children: Vec<(u8, NodeNumber)>,
    subscribers: PlaceSet,
}

/// The prefixes that somebody subscribes to.
#[derive(Debug)]
pub(super) struct PrefixTree {
    nodes: Slab<Node>,
    /// The number of nodes with subscribers.
    pub(super) prefixes: usize,
    edge_bytes: usize,
}

impl Default for PrefixTree {
    fn default() -> Self {
        Self { nodes: Slab::from_iter([(ROOT as usize, Node::default())]), prefixes: 0, edge_bytes: 0 }
    }
}

impl PrefixTree {
    /// Returns about how many bytes of memory the tree holds.
    pub(super) fn held_bytes(&self) -> usize {
        let child_bytes = size_of::<(u8, NodeNumber)>();
        self.nodes.capacity() * size_of::<Node>() + self.nodes.len() * child_bytes + self.edge_bytes
    }

    /// Returns the subscribers of all prefixes that the topic begins with.
    pub(super) fn matching(&self, topic: &[u8]) -> PlaceSet {
        let sets = self.path(topic).map(|(_, node, _)| node.subscribers);
        sets.fold(PlaceSet::default(), |all, subscribers| all.union(&subscribers))
    }

    /// Returns whether a prefix that the topic begins with, and that is not empty, has subscribers.
    pub(super) fn names(&self, topic: &[u8]) -> bool {
        self.path(topic).skip(1).any(|(_, node, _)| !node.subscribers.is_empty())
    }

    /// Returns the last node on the way to a prefix, and the bytes of the prefix behind it. Without such bytes, it is
    /// the node of the prefix, which may have no subscribers.
    pub(super) fn find<'t>(&self, prefix: &'t [u8]) -> (NodeNumber, &'t [u8]) {
        self.path(prefix).last().map_or((ROOT, prefix), |(number, _, rest)| (number, rest))
    }

    pub(super) fn insert(&mut self, place: u8, found: (NodeNumber, &[u8])) -> NodeNumber {
        let number = self.add(found);
        if let Some(node) = self.nodes.get_mut(number as usize) {
            self.prefixes += usize::from(node.subscribers.is_empty());
            node.subscribers.insert(place);
        }
        number
    }

    /// Removes a subscriber from the prefix of a node, and the prefix if it was the last one.
    pub(super) fn remove(&mut self, place: u8, number: NodeNumber) {
        let node = self.nodes.get_mut(number as usize).filter(|node| node.subscribers.contains(place));
        let Some(node) = node else { return debug_assert!(false, "{place} subscribes to node {number}") };
        node.subscribers.remove(place);
        if !node.subscribers.is_empty() {
            return;
        }
        self.prefixes -= 1;
        if node.children.is_empty() && number != ROOT {
            let leaf = self.nodes.remove(number as usize);
            self.edge_bytes -= 1 + leaf.label.len();
            if let Some(Node { children, .. }) = self.nodes.get_mut(leaf.parent as usize) {
                children.retain(|(byte, _)| *byte != leaf.byte);
                if children.len() * SPARE_FACTOR < children.capacity() {
                    children.shrink_to_fit();
                }
            }
            self.join(leaf.parent);
        } else {
            self.join(number);
        }
        if self.prefixes == 0 {
            debug_assert!(self.nodes.len() == 1 && self.edge_bytes == 0, "{self:?}");
            self.nodes.shrink_to_fit();
        }
    }

    pub(super) fn first(&self, most: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut path = Vec::new();
        let mut next = vec![(ROOT, 0)];
        while found.len() < most
            && let Some((number, parent_bytes)) = next.pop()
            && let Some(node) = self.node(number)
        {
            path.truncate(parent_bytes);
            if number != ROOT {
                path.push(node.byte);
                path.extend_from_slice(&node.label);
            }
            if !node.subscribers.is_empty() {
                found.push(path.clone());
            }
            next.extend(node.children.iter().rev().map(|(_, child)| (*child, path.len())));
        }
        found
    }

    fn node(&self, number: NodeNumber) -> Option<&Node> {
        self.nodes.get(number as usize)
    }

    /// Returns the nodes of all prefixes of `topic`, from the root on, each with the rest of the topic behind it.
    fn path<'a, 't>(&'a self, topic: &'t [u8]) -> impl Iterator<Item = (NodeNumber, &'a Node, &'t [u8])> {
        let root = self.node(ROOT).map(|node| (ROOT, node, topic));
        iter::successors(root, |(_, node, rest)| {
            let (byte, rest) = rest.split_first()?;
            let number = node.child(*byte)?;
            let child = self.node(number)?;
            // An empty box has no valid address, which memcmp(3) with vector instructions takes 100 cycles to find out.
            let rest = if child.label.is_empty() { rest } else { rest.strip_prefix(&*child.label)? };
            Some((number, child, rest))
        })
    }

    /// Adds the node of a prefix below the last one on the way to it, unless it is there.
    fn add(&mut self, (number, rest): (NodeNumber, &[u8])) -> NodeNumber {
        let Some((byte, label)) = rest.split_first() else { return number };
        if let Some(child) = self.node(number).and_then(|node| node.child(*byte)) {
            let found = self.split(child, label);
            return self.add(found);
        }
        let leaf = Node { parent: number, byte: *byte, label: label.into(), ..Node::default() };
        let leaf = self.nodes.insert(leaf) as NodeNumber;
        self.edge_bytes += rest.len();
        self.set_child(number, *byte, leaf);
        leaf
    }

    /// Puts a node where the label of the edge to `lower` and `label` part. Returns it, and the rest of `label`.
    fn split<'a>(&mut self, lower: NodeNumber, label: &'a [u8]) -> (NodeNumber, &'a [u8]) {
        let number = self.nodes.vacant_key() as NodeNumber;
        let Some(node) = self.nodes.get_mut(lower as usize) else { return (lower, &[]) };
        let shared_bytes = node.label.iter().zip(label).take_while(|(ours, theirs)| ours == theirs).count();
        let (upper_label, lower_edge) = node.label.split_at(shared_bytes);
        let Some((byte, lower_label)) = lower_edge.split_first() else {
            debug_assert!(false, "the path to a prefix goes on where it has the whole label");
            return (lower, &[]);
        };
        let children = vec![(*byte, lower)];
        let upper =
            Node { parent: node.parent, byte: node.byte, label: upper_label.into(), children, ..Node::default() };
        (node.parent, node.byte, node.label) = (number, *byte, lower_label.into());
        self.set_child(upper.parent, upper.byte, number);
        self.nodes.insert(upper);
        (number, label.get(shared_bytes..).unwrap_or_default())
    }

    /// Joins the edges above and below a node that stands for no prefix and has one child.
    fn join(&mut self, number: NodeNumber) {
        let Some(node) = self.node(number).filter(|node| number != ROOT && node.subscribers.is_empty()) else { return };
        let &[(_, child)] = &*node.children else { return };
        let upper = self.nodes.remove(number as usize);
        if let Some(lower) = self.nodes.get_mut(child as usize) {
            lower.label = [&*upper.label, &[lower.byte], &*lower.label].concat().into();
            (lower.parent, lower.byte) = (upper.parent, upper.byte);
        }
        self.set_child(upper.parent, upper.byte, child);
    }

    /// Lets the edge of `parent` that begins with `byte` lead to `child`.
    fn set_child(&mut self, parent: NodeNumber, byte: u8, child: NodeNumber) {
        let Some(node) = self.nodes.get_mut(parent as usize) else { return };
        match node.position(byte) {
            Ok(at) => node.children.get_mut(at).into_iter().for_each(|edge| edge.1 = child),
            Err(at) => node.children.insert(at, (byte, child)),
        }
    }
}

impl Node {
    /// Returns where the edge stands that begins with `byte`, or where it belongs.
    fn position(&self, byte: u8) -> Result<usize, usize> {
        self.children.binary_search_by_key(&byte, |(first, _)| *first)
    }

    fn child(&self, byte: u8) -> Option<NodeNumber> {
        let at = self.position(byte).ok()?;
        self.children.get(at).map(|(_, child)| *child)
    }
}

#[cfg(test)]
impl PrefixTree {
    /// Panics if the tree has a node that it does not need, or a wrong edge or count.
    pub(super) fn check(&self) {
        let (mut prefixes, mut edge_bytes) = (0, 0);
        for (number, node) in &self.nodes {
            let number = number as NodeNumber;
            prefixes += usize::from(!node.subscribers.is_empty());
            assert!(node.children.is_sorted_by(|one, next| one.0 < next.0));
            for (byte, child) in &node.children {
                let child = self.node(*child).unwrap();
                assert_eq!((child.parent, child.byte), (number, *byte));
            }
            if number != ROOT {
                edge_bytes += 1 + node.label.len();
                assert!(!node.subscribers.is_empty() || node.children.len() > 1, "{node:?}");
                assert_eq!(self.node(node.parent).unwrap().child(node.byte), Some(number));
            }
        }
        assert_eq!((self.prefixes, self.edge_bytes), (prefixes, edge_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(tree: &mut PrefixTree, place: u8, prefix: &[u8]) -> NodeNumber {
        tree.insert(place, tree.find(prefix))
    }

    fn tree(prefixes: &[&[u8]]) -> (PrefixTree, Vec<NodeNumber>) {
        let mut tree = PrefixTree::default();
        let numbers = prefixes.iter().map(|prefix| insert(&mut tree, 0, prefix)).collect();
        tree.check();
        (tree, numbers)
    }

    #[test]
    fn a_tree_has_a_node_for_each_prefix_and_one_where_several_part() {
        for (prefixes, nodes) in [
            (&[][..], 1),
            (&[&b""[..]], 1),
            (&[b"abc"], 2),
            (&[b"abc", b"abc"], 2),
            (&[b"abc", b"ab"], 3),
            (&[b"ab", b"abc"], 3),
            (&[b"abc", b"abd"], 4),
            (&[b"abc", b"abd", b"ab"], 4),
            (&[b"abc", b"a", b"abd"], 5),
            (&[b"a", b"b", b"c"], 4),
            (&[b"\0\xff", b"\0\0", b"\xff"], 5),
        ] {
            let (tree, _) = tree(prefixes);
            assert_eq!(tree.nodes.len(), nodes, "{prefixes:?}");
        }
    }

    #[test]
    fn a_number_leads_to_its_prefix_whatever_is_split_and_joined() {
        let prefixes = [&b"abcdef"[..], b"abcxyz", b"abc", b"", b"abcdefgh", b"a", b"abcd"];
        let (mut tree, numbers) = tree(&prefixes);
        for (removed, number) in numbers.iter().enumerate() {
            for (prefix, number) in prefixes.iter().zip(&numbers).skip(removed) {
                assert_eq!(tree.find(prefix), (*number, &[][..]));
            }
            tree.remove(0, *number);
            tree.check();
        }
        assert_eq!(tree.nodes.len(), 1);
    }

    #[test]
    fn the_end_of_a_prefix_removes_what_stands_for_no_other() {
        let (mut tree, numbers) = tree(&[b"abcd", b"abxy", b"ab"]);
        insert(&mut tree, 1, b"abcd");
        for (place, number, nodes) in [(0, 0, 4), (0, 2, 4), (1, 0, 2), (0, 1, 1)] {
            tree.remove(place, numbers[number]);
            tree.check();
            assert_eq!(tree.nodes.len(), nodes);
        }
    }

    #[test]
    fn memory_comes_back() {
        let mut tree = PrefixTree::default();
        let empty_bytes = tree.held_bytes();
        let numbers: Vec<_> =
            (0..4_096_u16).map(|number| insert(&mut tree, 0, &number.to_be_bytes().repeat(500))).collect();
        assert!(tree.held_bytes() > 4_000_000);
        numbers.into_iter().for_each(|number| tree.remove(0, number));
        tree.check();
        assert!(tree.held_bytes() <= empty_bytes);
        assert_eq!(tree.node(ROOT).unwrap().children.capacity(), 0);
    }
}
