//! KV blocks: who holds which, which were computed for a prefix seen before, and which goes first when none is free.

use std::collections::{BTreeMap, HashMap};

use crate::fault::mix;

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
#[path = "../../tests/unit/engine_kv.rs"]
mod tests;
