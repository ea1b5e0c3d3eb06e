//! The account of a run beside the gateway's own counters.

use serde_json::Value;

use crate::account::{Outcome, Totals};
use crate::hub::Hubs;
use crate::world::World;

/// Compares the counters of the gateway with the account.
pub(crate) fn compare(world: &World, stats: &Value, totals: &Totals, lost_at_the_start: u64) {
    let count = |outcome| totals.outcomes.get(&outcome).copied().unwrap_or_default();
    let (accepted, published) = (number(&stats["accepted"]), number(&stats["published"]));
    let unknown = count(Outcome::Unknown);
    let lost: u64 = totals.lost.values().sum();
    let check = |holds: bool, what: String| {
        if !holds {
            world.fail(&what);
        }
    };
    check(accepted == published, format!("{accepted} accepted and {published} published"));
    // Some clients did not read their 200.
    let unread = accepted.checked_sub(count(Outcome::Accepted));
    check(
        unread.is_some_and(|unread| (totals.delivered_unknown..=unknown).contains(&unread)),
        format!("the gateway accepted {accepted}, and {totals:?}"),
    );
    // Of those that nobody knows of, some may be lost with a hub too.
    let missing = published.checked_sub(totals.delivered + lost + lost_at_the_start);
    let possible = if totals.ended_hubs > 0 { unknown - totals.delivered_unknown } else { 0 };
    check(
        missing.is_some_and(|missing| missing <= possible),
        format!("the gateway published {published}, {lost_at_the_start} before its subscriber came, and {totals:?}"),
    );
    if let Some(unsubscribed) = stats["unsubscribed"].as_u64() {
        check(unsubscribed == lost_at_the_start, format!("{unsubscribed} unsubscribed, not {lost_at_the_start}"));
    }
    // Clients that left did not read all answers.
    let (answers, unavailable) = {
        let account = world.account();
        (account.answers.clone(), account.unavailable.clone())
    };
    let answers = answers.into_iter().map(|(status, read)| (status.to_string(), read, &stats["answers"]));
    let refused = unavailable.into_iter().map(|(reason, read)| (reason, read, &stats["refused"]));
    for (name, read, counters) in answers.chain(refused) {
        let counted = number(&counters[&name]);
        check(counted >= read, format!("clients read {read} answers {name}, and the gateway counted {counted}"));
    }
}

/// Prints what the run did, in numbers.
pub(crate) fn print(world: &World, stats: &Value, totals: &Totals, hubs: &Hubs) {
    let account = world.account();
    println!("{} messages on {} connections, by {} hubs", account.messages(), account.connections, hubs.count);
    println!("answers read: {:?}, those with 503: {:?}", account.answers, account.unavailable);
    println!("outcomes: {:?}", totals.outcomes);
    println!("delivered: {}, of them without an answer that was read: {}", totals.delivered, totals.delivered_unknown);
    println!("lost after a 200, by the hub that was killed: {:?}", totals.lost);
    println!("the gateway's counters: {stats}");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
