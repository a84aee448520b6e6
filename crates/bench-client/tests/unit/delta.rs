//! What documents tell, document by document.

use super::*;

const ANSWER: Channel = Channel::Answer;

#[test]
fn what_is_new_in_a_repeated_text_is_content() {
    let mut delta = Delta::new(Some(100));
    let new: Vec<bool> = ["é", "é", "éa", "éa世", "other"]
        .map(|text| delta.text_so_far(ANSWER, text))
        .into();
    assert_eq!(new, [true, false, true, true, true]);
    let whole = delta.into_whole();
    assert_eq!((whole.text.as_deref(), whole.chars), (Some("éa世other"), 8));
}

#[test]
fn a_total_counts_only_if_every_content_event_since_the_last_one_had_one() {
    let mut delta = Delta::default();
    let mut event = |content: bool, total: Option<u64>, counted: Option<usize>| {
        if content {
            delta.text(ANSWER, "a");
        }
        if let Some(total) = total {
            delta.total_tokens(total);
        }
        if let Some(counted) = counted {
            delta.tokens(counted);
        }
        delta.take().content.map(|(_, tokens)| tokens)
    };
    assert_eq!(event(false, Some(1), None), None);
    assert_eq!(event(true, Some(4), None), Some(Some(3)));
    assert_eq!(event(true, None, None), Some(None));
    assert_eq!(event(true, Some(6), None), Some(None));
    assert_eq!(event(true, Some(7), None), Some(Some(1)));
    assert_eq!(
        event(true, Some(5), None),
        Some(None),
        "a total that falls tells nothing"
    );
    assert_eq!(
        event(true, Some(9), Some(2)),
        Some(Some(2)),
        "ids are better than totals"
    );
}

#[test]
fn of_an_endless_finish_reason_only_the_beginning_is_kept() {
    let mut delta = Delta::default();
    delta.finish(&"stop".repeat(1 << 20));
    let kept = delta.into_whole().finish_reason.unwrap();
    assert_eq!(kept.chars().count(), FINISH_REASON_CHARS + 1);
    assert!(kept.ends_with("stop…"), "{kept}");
}

#[test]
fn the_channel_that_a_user_sees_wins() {
    let mut delta = Delta::default();
    for channel in [Channel::Tool, Channel::Answer, Channel::Reasoning] {
        delta.text(channel, "a");
    }
    assert_eq!(delta.take().content, Some((ANSWER, None)));
    delta.text(Channel::Reasoning, "");
    assert_eq!(delta.take().content, None);
}
