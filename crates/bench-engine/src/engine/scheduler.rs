//! Continuous batching, decided and not executed: which tokens of which sequences the next step computes.
//!
//! The policy is that of vLLM's engine: sequences that run go first, in the order they were admitted; then waiting ones,
//! first come first served, as far as places, tokens and KV blocks reach. When a running sequence finds no block, the one
//! admitted last is preempted: its blocks are freed and it is computed again later, before all that wait. Without chunked
//! prefill a step is either whole prompts or decodes, so decodes stand still while a prompt is computed.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::config::Limits;
use crate::fault::mix;

/// Number of a sequence.
pub(crate) type Id = u64;

/// A stretch of one sequence that a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: Id,
    /// Position of its first token.
    pub(crate) from: usize,
    pub(crate) count: usize,
    /// Whether the next token comes of it.
    pub(crate) sample: bool,
}

/// One step.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) items: Vec<Item>,
    /// Sequences that run for the first time, with the tokens they need not compute.
    pub(crate) admitted: Vec<(Id, usize)>,
    pub(crate) preempted: Vec<Id>,
    /// Sequences that can never go on, because all blocks together are too few.
    pub(crate) starved: Vec<Id>,
}

/// A sequence's tokens and what is computed of them.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) tokens: Vec<u32>,
    computed: usize,
    blocks: Vec<usize>,
    admitted: bool,
}

/// Who runs and who waits.
#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: Limits,
    pool: Pool,
    sequences: HashMap<Id, Sequence>,
    running: Vec<Id>,
    waiting: VecDeque<Id>,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits) -> Self {
        let pool = Pool::new(
            limits.num_blocks,
            limits.block_size,
            limits.enable_prefix_caching,
        );
        Self {
            limits,
            pool,
            sequences: HashMap::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.sequences.is_empty()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The tokens of a sequence that is known.
    pub(crate) fn tokens(&self, id: Id) -> &[u32] {
        self.sequences
            .get(&id)
            .map_or(&[], |sequence| &sequence.tokens)
    }

    pub(crate) fn add(&mut self, id: Id, prompt: Vec<u32>) {
        let sequence = Sequence {
            tokens: prompt,
            computed: 0,
            blocks: Vec::new(),
            admitted: false,
        };
        self.sequences.insert(id, sequence);
        self.waiting.push_back(id);
    }

    /// Forgets a sequence that is over, or whose client is gone.
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(mut sequence) = self.sequences.remove(&id) {
            self.pool.release(&mut sequence.blocks);
            self.running.retain(|other| *other != id);
            self.waiting.retain(|other| *other != id);
        }
    }

    /// An item was computed; `next` is the token that came of it.
    pub(crate) fn advance(&mut self, item: &Item, next: Option<u32>) {
        let Some(sequence) = self.sequences.get_mut(&item.id) else {
            return;
        };
        let computed = item.from + item.count;
        self.pool
            .remember(&sequence.blocks, &sequence.tokens, item.from, computed);
        sequence.computed = computed;
        sequence.tokens.extend(next);
    }

    /// Decides the next step. Everything it decides must be computed and [advanced](Self::advance) before the next call.
    pub(crate) fn plan(&mut self) -> Plan {
        let mut plan = Plan::default();
        let mut budget = self.limits.max_num_batched_tokens;
        if self.limits.enable_chunked_prefill {
            self.plan_running(&mut plan, &mut budget);
            if plan.preempted.is_empty() {
                self.plan_waiting(&mut plan, &mut budget);
            }
        } else {
            self.plan_waiting(&mut plan, &mut budget);
            if plan.items.is_empty() {
                self.plan_running(&mut plan, &mut budget);
            }
        }
        plan
    }

    fn plan_running(&mut self, plan: &mut Plan, budget: &mut usize) {
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let id = self.running[at];
            let Some(sequence) = self.sequences.get_mut(&id) else {
                self.running.remove(at);
                continue;
            };
            let need = sequence.tokens.len() - sequence.computed;
            let count = need.min(*budget);
            if self
                .pool
                .grow(&mut sequence.blocks, sequence.computed + count)
            {
                plan.items.push(Item {
                    id,
                    from: sequence.computed,
                    count,
                    sample: count == need,
                });
                *budget -= count;
                at += 1;
            } else if self.running.len() == 1 {
                self.running.clear();
                plan.starved.push(id);
            } else if let Some(youngest) = self.running.pop() {
                self.preempt(youngest);
                plan.preempted.push(youngest);
            }
        }
    }

    fn preempt(&mut self, id: Id) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            self.pool.release(&mut sequence.blocks);
            sequence.computed = 0;
            self.waiting.push_front(id);
        }
    }

    fn plan_waiting(&mut self, plan: &mut Plan, budget: &mut usize) {
        while self.running.len() < self.limits.max_num_seqs && *budget > 0 {
            let Some(id) = self.waiting.front().copied() else {
                break;
            };
            let Some(sequence) = self.sequences.get_mut(&id) else {
                self.waiting.pop_front();
                continue;
            };
            sequence.blocks = self.pool.take_known(&sequence.tokens);
            let known = sequence.blocks.len() * self.pool.block_size();
            let need = sequence.tokens.len() - known;
            // A prompt that may not be cut and is longer than a step gets a step of its own.
            let whole_fits = need <= *budget || plan.items.is_empty();
            let count = if self.limits.enable_chunked_prefill {
                need.min(*budget)
            } else {
                need
            };
            let cut = !self.limits.enable_chunked_prefill && !whole_fits;
            if cut || !self.pool.grow(&mut sequence.blocks, known + count) {
                self.pool.release(&mut sequence.blocks);
                let never = !cut && self.running.is_empty() && plan.items.is_empty();
                if never && (known + count).div_ceil(self.pool.block_size()) > self.pool.size() {
                    self.waiting.pop_front();
                    plan.starved.push(id);
                    continue;
                }
                break;
            }
            sequence.computed = known;
            if !std::mem::replace(&mut sequence.admitted, true) {
                plan.admitted.push((id, known));
            }
            plan.items.push(Item {
                id,
                from: known,
                count,
                sample: count == need,
            });
            *budget = budget.saturating_sub(count);
            self.waiting.pop_front();
            self.running.push(id);
        }
    }
}

// KV blocks: who holds which, which were computed for a prefix seen before, and which goes first when none is free.

/// All blocks of an engine. Blocks that nobody holds keep their content until they are needed, oldest first.
#[derive(Debug)]
pub(crate) struct Pool {
    block_size: usize,
    caching: bool,
    blocks: Vec<Block>,
    by_hash: HashMap<u64, usize>,
    /// Free blocks by when they were released.
    free: BTreeMap<u64, usize>,
    clock: u64,
}

#[derive(Debug, Default, Clone)]
struct Block {
    holders: u32,
    /// Hash of everything up to its end, once it is full.
    hash: Option<u64>,
    released: u64,
}

impl Pool {
    pub(crate) fn new(blocks: usize, block_size: usize, caching: bool) -> Self {
        let all = (0..blocks)
            .map(|at| Block {
                released: at as u64,
                ..Block::default()
            })
            .collect();
        let free = (0..blocks).map(|at| (at as u64, at)).collect();
        Self {
            block_size,
            caching,
            blocks: all,
            by_hash: HashMap::new(),
            free,
            clock: blocks as u64,
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn used(&self) -> usize {
        self.blocks.len() - self.free.len()
    }

    pub(crate) fn block_size(&self) -> usize {
        self.block_size
    }

    /// Takes the blocks that hold the beginning of `tokens`, as far as they are known; never all of it, because the
    /// last token has to be computed to get the next one.
    pub(crate) fn take_known(&mut self, tokens: &[u32]) -> Vec<usize> {
        let mut taken = Vec::new();
        if !self.caching {
            return taken;
        }
        let mut hash = 0;
        let most = tokens.len().saturating_sub(1) / self.block_size;
        for block in tokens.chunks_exact(self.block_size).take(most) {
            hash = chain(hash, block);
            let Some(at) = self.by_hash.get(&hash).copied() else {
                break;
            };
            self.hold(at);
            taken.push(at);
        }
        taken
    }

    /// Makes `held` long enough for so many tokens; takes nothing if there are not enough free ones.
    pub(crate) fn grow(&mut self, held: &mut Vec<usize>, tokens: usize) -> bool {
        let missing = tokens.div_ceil(self.block_size).saturating_sub(held.len());
        if missing > self.free.len() {
            return false;
        }
        for _ in 0..missing {
            if let Some((_, at)) = self.free.pop_first() {
                if let Some(old) = self.blocks[at].hash.take() {
                    self.by_hash.remove(&old);
                }
                self.blocks[at].holders = 1;
                held.push(at);
            }
        }
        true
    }

    /// Remembers the full blocks among the first `computed` tokens.
    pub(crate) fn remember(
        &mut self,
        held: &[usize],
        tokens: &[u32],
        from: usize,
        computed: usize,
    ) {
        if !self.caching || from / self.block_size == computed / self.block_size {
            return;
        }
        let mut hash = 0;
        let full = tokens[..computed].chunks_exact(self.block_size);
        for (block, at) in full.zip(held) {
            hash = chain(hash, block);
            if self.blocks[*at].hash.is_none() && !self.by_hash.contains_key(&hash) {
                self.blocks[*at].hash = Some(hash);
                self.by_hash.insert(hash, *at);
            }
        }
    }

    /// Gives blocks back; the end of a sequence is forgotten before its beginning, which others may share.
    pub(crate) fn release(&mut self, held: &mut Vec<usize>) {
        for at in held.drain(..).rev() {
            let block = &mut self.blocks[at];
            block.holders = block.holders.saturating_sub(1);
            if block.holders == 0 {
                self.clock += 1;
                block.released = self.clock;
                self.free.insert(self.clock, at);
            }
        }
    }

    fn hold(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        if block.holders == 0 {
            self.free.remove(&block.released);
        }
        block.holders += 1;
    }
}

fn chain(before: u64, block: &[u32]) -> u64 {
    block
        .iter()
        .fold(mix(before), |hash, id| mix(hash ^ u64::from(*id)))
}

#[cfg(test)]
#[path = "../../tests/unit/scheduler.rs"]
mod tests;

#[cfg(test)]
#[path = "../../tests/unit/engine_kv.rs"]
mod kv_tests;
