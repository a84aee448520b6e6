//! One real request to each endpoint before anything else: what is wrong with the address, the key or the model is said once, and not a thousand times.

use std::sync::Arc;

use bench_schema::{Exchange, GenerationRequest, Nanos, Outcome, Prompt, Stage};
use bench_workload::Calibration;

use super::{Run, aside};
use crate::RunError;
use crate::worker_pool::WorkerPool;

const TEXT: &str = "one two three four five six seven eight";
/// Enough for a server whose first token is not text.
const TOKENS: u32 = 4;
/// A server that answers nine of ten requests is still worth measuring.
const TRIES: u32 = 3;
const PAUSE: Nanos = Nanos::from_millis(500);
const LONGEST_PAUSE: Nanos = Nanos::from_secs(10);

impl Run<'_> {
    /// Have a worker ask each endpoint one small question as the cells will, and learn from the first usage what the server adds to a prompt (the chat
    /// template), so that asked lengths are those that the server counts.
    pub(super) async fn preflight(&mut self, pool: &WorkerPool) -> Result<(), RunError> {
        let request = self.question();
        let protocol = &self.server.target.protocol;
        let mut left_out = protocol.unsupported(&GenerationRequest {
            min_tokens: self.settings.workload.min_tokens,
            ..request.clone()
        });
        left_out.retain(|what| *what != "stream"); // asked for by default
        if !left_out.is_empty() {
            self.progress.note(&format!(
                "warning: protocol {} does not support {}; requests are sent without it",
                protocol.name(),
                left_out.join(", ")
            ));
        }
        let urls = self.server.record.urls.clone();
        for (endpoint, url) in urls.iter().enumerate() {
            let answer = self.answer_of(pool, endpoint, &request).await?;
            match refusal(&answer) {
                Some((mut what, help)) => {
                    if urls.len() > 1 && !what.contains(url) {
                        what = format!("{url}: {what}");
                    }
                    self.secrets.hide(&mut what);
                    if !self.settings.limits.keep_going {
                        let help = format!("{help}; use --keep-going to measure anyway");
                        return Err(RunError::Server { what, help });
                    }
                    self.progress.note(&format!("warning: {what}"));
                }
                None if endpoint == 0 => self.learn(&answer).await?,
                None => {}
            }
        }
        Ok(())
    }

    /// What an endpoint answers, asked again where the trouble may pass.
    async fn answer_of(
        &self,
        pool: &WorkerPool,
        endpoint: usize,
        request: &GenerationRequest,
    ) -> Result<Exchange, RunError> {
        let name = match endpoint {
            0 => "preflight".to_owned(),
            other => format!("preflight-url{other}"),
        };
        let mut answer = pool.ask(endpoint, request.clone(), &name).await?;
        for again in 1..TRIES {
            if !is_worth_another_try(&answer) {
                break;
            }
            let pause = answer.retry_after.unwrap_or(PAUSE).min(LONGEST_PAUSE);
            tokio::time::sleep(pause.to_duration()).await;
            let name = format!("{name}-{again}");
            answer = pool.ask(endpoint, request.clone(), &name).await?;
        }
        Ok(answer)
    }

    fn question(&self) -> GenerationRequest {
        let workload = &self.settings.workload;
        GenerationRequest {
            prompt: Prompt::Text(TEXT.into()),
            max_tokens: Some(TOKENS),
            min_tokens: None,
            ignore_eos: workload.ignore_eos,
            sampling: workload.sampling(),
            stream: self.settings.target.stream,
            extra_body: workload.extra_body.clone().map(Arc::new),
        }
    }

    async fn learn(&mut self, answer: &Exchange) -> Result<(), RunError> {
        let served = answer.usage.as_ref().and_then(|usage| usage.prompt_tokens);
        let Some(served) = served.filter(|_| self.token_counter.counts_tokens()) else {
            return Ok(());
        };
        let counter = Arc::clone(&self.token_counter);
        let sent = aside("tokenize", move || counter.count(TEXT)).await?;
        let sent = sent.map_err(RunError::Workload)?;
        self.server.calibration = Calibration::learn(sent, served);
        Ok(())
    }
}

/// Trouble that may be gone at the next try. What the server understood and refused is not.
fn is_worth_another_try(answer: &Exchange) -> bool {
    match &answer.outcome {
        Outcome::Failed { .. } => !matches!(answer.status, Some(400..=428 | 430..=499)),
        Outcome::Truncated { .. } => true,
        _ => false,
    }
}

/// What came instead of an answer, and what to do.
fn refusal(answer: &Exchange) -> Option<(String, &'static str)> {
    let said = match &answer.outcome {
        // stopping answers is what --cancel-after asks for
        Outcome::Completed | Outcome::Cancelled { .. } => return None,
        Outcome::Failed { message, .. } | Outcome::Truncated { message } => message.clone(),
        Outcome::TimedOut { stage } => format!("no response in time ({stage} stage)"),
        Outcome::Unsent { reason } => reason.clone(),
    };
    let help = match (&answer.outcome, answer.status) {
        (Outcome::TimedOut { stage }, _) => match stage {
            Stage::Resolve | Stage::Connect | Stage::Tls => {
                "check --url, or use a longer --connect-timeout or --timeout"
            }
            Stage::FirstToken => {
                "check the server's log, or use a longer --first-token-timeout or --timeout"
            }
            Stage::Stream => "check the server's log, or use a longer --token-timeout or --timeout",
            _ => "check the server's log, or use a longer --timeout",
        },
        (_, Some(401 | 403)) => "set the API key with --api-key-env or --api-key-file",
        (_, Some(404 | 405)) => "check --url, --api (its path) and --model",
        (_, Some(400..=428 | 430..=499)) => {
            "check --api, --model, --extra-body and the sampling options"
        }
        (_, Some(429 | 503)) => "the server is overloaded; try again later",
        (_, Some(500..)) => "check the server's log",
        _ => "check --url and --api, and that this is the intended server",
    };
    Some((format!("the first request failed: {said}"), help))
}

#[cfg(test)]
#[path = "../../tests/unit/preflight.rs"]
mod tests;
