//! Who wants a topic: what the subscribers of all bound endpoints subscribe to, within bounds, in a radix tree.
//!
//! A node stands for a prefix: the bytes on the way from the root to it. It exists if somebody subscribes to that
//! prefix, or if several longer prefixes part there. So the tree has at most two nodes for each prefix.
//!
//! The number of a node with subscribers stays the same until its last subscriber is removed: when an edge is split, or
//! two edges are joined, the lower node keeps its number.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, iter};

use slab::Slab;

use super::place_set::PlaceSet;
use crate::terms::limits::MAX_TOPIC_BYTES;
use crate::terms::noted_topics::shown_topic;

/// Most prefixes of one subscriber. An adapter has some hundred. Besides its bytes, a prefix takes some 200 bytes.
pub const CONNECTION_PREFIXES: usize = 4_800;

/// Most prefixes of all subscribers together, where one that several have counts several times, and the first one of
/// each does not count. Prefixes of the greatest length take some 25 MB.
pub const SHARED_PREFIXES: usize = 4 * CONNECTION_PREFIXES;

/// The most prefixes that the log shows.
const SHOWN_PREFIXES: usize = 20;

type NodeNumber = u32;

/// The node of the empty prefix. It always exists.
const ROOT: NodeNumber = 0;

/// A prefix, without the bytes that its parent stands for.
#[derive(Debug, Default)]
struct Node {
    parent: NodeNumber,
    /// The bytes of the edge from the parent, but for the first one.
    label: Box<[u8]>,
    /// The first byte of the edge to each child, in ascending order, and the child.
    children: Vec<(u8, NodeNumber)>,
    subscribers: PlaceSet,
}

/// What the subscribers at all places subscribe to. The same prefix twice of one subscriber counts once, and one
/// cancellation removes it, as in libzmq's XPUB socket.
#[derive(Debug)]
pub struct Subscriptions {
    nodes: Slab<Node>,
    /// The number of nodes with subscribers.
    prefixes: usize,
    /// The nodes of the prefixes of each subscriber. An empty set takes no memory of its own.
    subscribers: BTreeMap<u8, BTreeSet<NodeNumber>>,
    /// The sum of the lengths of these sets.
    total: usize,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let nodes = Slab::from_iter([(ROOT as usize, Node::default())]);
        Self { nodes, prefixes: 0, subscribers: BTreeMap::new(), total: 0 }
    }
}

impl Subscriptions {
    /// Subscribes the subscriber at `place` to all topics that begin with `prefix`. Returns false, and changes nothing, if
    /// the prefix is beyond [`MAX_TOPIC_BYTES`], [`CONNECTION_PREFIXES`] or [`SHARED_PREFIXES`]. Whatever others
    /// subscribe to, its first prefix is accepted.
    #[must_use]
    pub fn subscribe(&mut self, place: u8, prefix: &[u8]) -> bool {
        let (last, rest) = self.find(prefix);
        let of = self.subscribers.entry(place).or_default();
        if rest.is_empty() && of.contains(&last) {
            return true;
        }
        let is_within_bounds = of.len() < CONNECTION_PREFIXES && self.total < SHARED_PREFIXES;
        if prefix.len() > MAX_TOPIC_BYTES || !is_within_bounds && !of.is_empty() {
            return false;
        }
        let number = self.add(last, rest);
        let subscribers = &mut self.node_mut(number).subscribers;
        let is_first = subscribers.is_empty();
        let is_new = subscribers.insert(place) && self.subscribers.entry(place).or_default().insert(number);
        debug_assert!(is_new, "{place} does not subscribe to node {number}");
        self.prefixes += usize::from(is_first);
        self.total += 1;
        true
    }

    /// Ends a subscription of the subscriber at `place`, if it has it.
    pub fn cancel(&mut self, place: u8, prefix: &[u8]) {
        let (number, rest) = self.find(prefix);
        if rest.is_empty() && self.subscribers.get_mut(&place).is_some_and(|of| of.remove(&number)) {
            self.remove(place, number);
        }
    }

    /// Ends all subscriptions of the subscriber at `place`, and costs work for these alone.
    pub fn leave(&mut self, place: u8) {
        // There is no set if it has not tried to subscribe.
        let of = self.subscribers.remove(&place).into_iter().flatten();
        of.for_each(|number| self.remove(place, number));
    }

    /// Returns who subscribes to a beginning of the topic.
    pub fn matching(&self, topic: &[u8]) -> PlaceSet {
        let sets = self.path(topic).map(|(_, node, _)| node.subscribers);
        sets.fold(PlaceSet::default(), |all, of| all.combined(&of, |all, of| all | of))
    }

    /// Returns whether somebody asks for the topic by a beginning of it. A subscription to everything, as a person makes
    /// one to see what comes, asks for no topic.
    pub fn ask_for(&self, topic: &[u8]) -> bool {
        self.path(topic).skip(1).any(|(_, node, _)| !node.subscribers.is_empty())
    }

    /// Returns whether somebody subscribes to everything.
    pub fn have_everything(&self) -> bool {
        !self.matching(b"").is_empty()
    }

    /// Returns the number of prefixes, where one that several subscribers have counts once.
    pub fn prefixes(&self) -> usize {
        self.prefixes
    }

    /// Returns the first `most` prefixes in ascending order, each once.
    pub fn first(&self, most: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut path = Vec::new();
        let mut next = vec![(0, None, ROOT)];
        while found.len() < most
            && let Some((parent_bytes, byte, number)) = next.pop()
        {
            let node = self.node(number);
            path.truncate(parent_bytes);
            path.extend(byte);
            path.extend_from_slice(&node.label);
            if !node.subscribers.is_empty() {
                found.push(path.clone());
            }
            next.extend(node.children.iter().rev().map(|(byte, child)| (path.len(), Some(*byte), *child)));
        }
        found
    }

    /// Returns the last node on the way to a prefix, and the bytes of the prefix behind it. Without such bytes, it is
    /// the node of the prefix, which may have no subscribers.
    fn find<'t>(&self, prefix: &'t [u8]) -> (NodeNumber, &'t [u8]) {
        self.path(prefix).last().map_or((ROOT, prefix), |(number, _, rest)| (number, rest))
    }

    /// Removes a subscriber from the prefix of a node, and the prefix if it was the last one.
    fn remove(&mut self, place: u8, number: NodeNumber) {
        let subscribers = &mut self.node_mut(number).subscribers;
        let has = subscribers.remove(place);
        debug_assert!(has, "{place} subscribes to node {number}");
        let is_last = subscribers.is_empty();
        self.total -= 1;
        if is_last {
            self.prefixes -= 1;
            self.prune(number);
        }
        if self.prefixes == 0 {
            debug_assert_eq!((self.nodes.len(), self.total), (1, 0), "only the root is left");
            self.nodes.shrink_to_fit();
        }
    }

    /// Returns a node. Each number that the tree keeps is that of one.
    #[expect(clippy::indexing_slicing, reason = "no peer names a node")]
    fn node(&self, number: NodeNumber) -> &Node {
        &self.nodes[number as usize]
    }

    /// Returns a node that is to change.
    #[expect(clippy::indexing_slicing, reason = "no peer names a node")]
    fn node_mut(&mut self, number: NodeNumber) -> &mut Node {
        &mut self.nodes[number as usize]
    }

    /// Returns the nodes of all prefixes of `topic`, from the root on, each with the rest of the topic behind it.
    fn path<'a, 't>(&'a self, topic: &'t [u8]) -> impl Iterator<Item = (NodeNumber, &'a Node, &'t [u8])> {
        iter::successors(Some((ROOT, self.node(ROOT), topic)), |(_, node, rest)| {
            let (byte, rest) = rest.split_first()?;
            let number = node.child(*byte)?;
            // Without an assertion: it would cost an instruction for each node, and the tree asserts what it changes.
            let child = self.nodes.get(number as usize)?;
            // An empty box has no valid address, which memcmp(3) with vector instructions takes 100 cycles to find out.
            let rest = if child.label.is_empty() { rest } else { rest.strip_prefix(&*child.label)? };
            Some((number, child, rest))
        })
    }

    /// Adds the node of a prefix below the last one on the way to it, unless it is there.
    fn add(&mut self, last: NodeNumber, rest: &[u8]) -> NodeNumber {
        let Some((byte, label)) = rest.split_first() else { return last };
        if let Some(child) = self.node(last).child(*byte) {
            let (upper, rest) = self.split(child, label);
            return self.add(upper, rest);
        }
        let leaf = self.nodes.insert(Node { parent: last, label: label.into(), ..Node::default() }) as NodeNumber;
        let children = &mut self.node_mut(last).children;
        children.insert(children.partition_point(|(first, _)| first < byte), (*byte, leaf));
        leaf
    }

    /// Puts a node where the label of the edge to `lower` and `label` part. Returns it, and the rest of `label`.
    fn split<'a>(&mut self, lower: NodeNumber, label: &'a [u8]) -> (NodeNumber, &'a [u8]) {
        let number = self.nodes.vacant_key() as NodeNumber;
        let node = self.node_mut(lower);
        let common_bytes = node.label.iter().zip(label).take_while(|(ours, theirs)| ours == theirs).count();
        let (common, rest) = label.split_at(common_bytes);
        let (_, lower_edge) = node.label.split_at(common_bytes);
        // The path to a prefix goes on where it has the whole label, so they part before its end.
        let Some((byte, lower_label)) = lower_edge.split_first() else { return (lower, rest) };
        let children = vec![(*byte, lower)];
        let upper = Node { parent: node.parent, label: common.into(), children, ..Node::default() };
        (node.parent, node.label) = (number, lower_label.into());
        self.replace_child(upper.parent, lower, number);
        self.nodes.insert(upper);
        (number, rest)
    }

    /// Removes a node that stands for no prefix, unless several longer ones part there.
    fn prune(&mut self, number: NodeNumber) {
        let node = self.node(number);
        if number == ROOT || !node.subscribers.is_empty() {
            return;
        }
        match *node.children {
            [] => {
                let parent = self.nodes.remove(number as usize).parent;
                let siblings = &mut self.node_mut(parent).children;
                siblings.retain(|(_, child)| *child != number);
                siblings.shrink_to_fit();
                self.prune(parent);
            }
            [(byte, child)] => {
                let Node { parent, label, .. } = self.nodes.remove(number as usize);
                let lower = self.node_mut(child);
                lower.label = [&*label, &[byte], &*lower.label].concat().into();
                lower.parent = parent;
                self.replace_child(parent, number, child);
            }
            _ => {}
        }
    }

    /// Lets the edge of `parent` to `former` lead to `child`.
    fn replace_child(&mut self, parent: NodeNumber, former: NodeNumber, child: NodeNumber) {
        let edge = self.node_mut(parent).children.iter_mut().find(|(_, at)| *at == former);
        debug_assert!(edge.is_some(), "{parent} is the parent of {former}");
        edge.into_iter().for_each(|(_, at)| *at = child);
    }
}

impl Node {
    fn child(&self, byte: u8) -> Option<NodeNumber> {
        let at = self.children.binary_search_by_key(&byte, |(first, _)| *first).ok()?;
        self.children.get(at).map(|(_, child)| *child)
    }
}

/// Lists the prefixes for the log, escaped and cut.
impl fmt::Display for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefixes)?;
        for (prefix, separator) in self.first(SHOWN_PREFIXES).iter().zip(iter::once(":").chain(iter::repeat(","))) {
            write!(f, "{separator} \"{}\"", shown_topic(&String::from_utf8_lossy(prefix)))?;
        }
        match self.prefixes.saturating_sub(SHOWN_PREFIXES) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}
