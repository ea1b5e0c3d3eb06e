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

use super::noted_topics::shown_topic;
use super::place_set::PlaceSet;
use crate::terms::limits::MAX_TOPIC_BYTES;

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

/// A subscription is beyond [`MAX_TOPIC_BYTES`], [`CONNECTION_PREFIXES`] or [`SHARED_PREFIXES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionFault;

/// What the subscribers at all places subscribe to. The same prefix twice of one subscriber counts once, and one
/// cancellation removes it, as in libzmq's XPUB socket.
#[derive(Debug)]
pub struct Subscriptions {
    nodes: Slab<Node>,
    /// The number of nodes with subscribers.
    prefixes: usize,
    edge_bytes: usize,
    /// The nodes of the prefixes of each subscriber. An empty set takes no memory of its own.
    subscribers: BTreeMap<u8, BTreeSet<NodeNumber>>,
    /// The sum of the lengths of these sets.
    total: usize,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let nodes = Slab::from_iter([(ROOT as usize, Node::default())]);
        Self { nodes, prefixes: 0, edge_bytes: 0, subscribers: BTreeMap::new(), total: 0 }
    }
}

impl Subscriptions {
    /// Subscribes the subscriber at `place` to all topics that begin with `prefix`. Returns whether it did not
    /// subscribe to that prefix yet. Whatever others subscribe to, its first prefix is accepted.
    ///
    /// # Errors
    /// Returns a fault, and changes nothing, if the prefix is beyond a bound.
    pub fn subscribe(&mut self, place: u8, prefix: &[u8]) -> Result<bool, SubscriptionFault> {
        let found = self.find(prefix);
        let of = self.subscribers.entry(place).or_default();
        if found.1.is_empty() && of.contains(&found.0) {
            return Ok(false);
        }
        let is_within_bounds = of.len() < CONNECTION_PREFIXES && self.total < SHARED_PREFIXES;
        if prefix.len() > MAX_TOPIC_BYTES || !is_within_bounds && !of.is_empty() {
            return Err(SubscriptionFault);
        }
        let number = self.add(found);
        if let Some(node) = self.nodes.get_mut(number as usize) {
            self.prefixes += usize::from(node.subscribers.is_empty());
            node.subscribers.insert(place);
        }
        self.subscribers.entry(place).or_default().insert(number);
        self.total += 1;
        Ok(true)
    }

    /// Ends a subscription. Returns whether the subscriber at `place` had it.
    pub fn cancel(&mut self, place: u8, prefix: &[u8]) -> bool {
        let (number, rest) = self.find(prefix);
        let has = rest.is_empty() && self.subscribers.get_mut(&place).is_some_and(|of| of.remove(&number));
        if has {
            self.remove(place, number);
        }
        has
    }

    /// Ends all subscriptions of the subscriber at `place`, and costs work for these alone.
    pub fn leave(&mut self, place: u8) {
        let of = self.subscribers.remove(&place).unwrap_or_default();
        of.into_iter().for_each(|number| self.remove(place, number));
    }

    /// Returns who subscribes to a beginning of the topic.
    pub fn matching(&self, topic: &[u8]) -> PlaceSet {
        let sets = self.path(topic).map(|(_, node, _)| node.subscribers);
        sets.fold(PlaceSet::default(), |all, subscribers| all.union(&subscribers))
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

    /// Returns about how many bytes of memory the subscriptions take.
    pub fn held_bytes(&self) -> usize {
        let (child_bytes, node_bytes) = (size_of::<(u8, NodeNumber)>(), size_of::<Node>());
        let tree_bytes = self.nodes.capacity() * node_bytes + self.nodes.len() * child_bytes + self.edge_bytes;
        tree_bytes + self.total * size_of::<NodeNumber>()
    }

    /// Returns the first `most` prefixes in ascending order, each once.
    pub fn first(&self, most: usize) -> Vec<Vec<u8>> {
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

    /// Returns the last node on the way to a prefix, and the bytes of the prefix behind it. Without such bytes, it is
    /// the node of the prefix, which may have no subscribers.
    fn find<'t>(&self, prefix: &'t [u8]) -> (NodeNumber, &'t [u8]) {
        self.path(prefix).last().map_or((ROOT, prefix), |(number, _, rest)| (number, rest))
    }

    /// Removes a subscriber from the prefix of a node, and the prefix if it was the last one.
    fn remove(&mut self, place: u8, number: NodeNumber) {
        let node = self.nodes.get_mut(number as usize).filter(|node| node.subscribers.contains(place));
        let Some(node) = node else { return debug_assert!(false, "{place} subscribes to node {number}") };
        node.subscribers.remove(place);
        self.total -= 1;
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
        let common_bytes = node.label.iter().zip(label).take_while(|(ours, theirs)| ours == theirs).count();
        let (upper_label, lower_edge) = node.label.split_at(common_bytes);
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
        (number, label.get(common_bytes..).unwrap_or_default())
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

/// Lists the prefixes for the log, escaped and cut.
impl fmt::Display for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.prefixes();
        write!(f, "{total}")?;
        for (number, prefix) in self.first(SHOWN_PREFIXES).iter().enumerate() {
            let separator = if number == 0 { ": " } else { ", " };
            write!(f, "{separator}\"{}\"", shown_topic(&String::from_utf8_lossy(prefix)))?;
        }
        if total > SHOWN_PREFIXES {
            write!(f, ", and {} more", total - SHOWN_PREFIXES)?;
        }
        Ok(())
    }
}
