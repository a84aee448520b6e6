//! The limit: a reader that does nothing but count the ends of events, on its own epoll loop.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bench_client::{Endpoint, thread_schedstat};
use bench_schema::Nanos;
use rustix::event::epoll;

use crate::options::Options;

/// What the bare reader counted and what it cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    pub(crate) events: usize,
    pub(crate) cpu: Nanos,
}

/// The same load, read by hand on a thread of its own.
pub(crate) fn measure(options: &Options, endpoint: &Endpoint, model: &str) -> Result<Bare, String> {
    let (options, authority, model) = (options.clone(), endpoint.authority(), model.to_owned());
    let reader = std::thread::spawn(move || read(&options, &authority, &model));
    let read = reader
        .join()
        .map_err(|_| "the bare reader panicked".to_owned())?;
    read.map_err(|error| format!("bare reader: {error}"))
}

fn request(options: &Options, authority: &str, model: &str) -> String {
    let body = format!(
        "{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"user\",\"content\":\"Tell me the truth.\"}}],\"stream\":true,\
         \"max_tokens\":{},\"ignore_eos\":true}}",
        options.tokens
    );
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn read(options: &Options, authority: &str, model: &str) -> std::io::Result<Bare> {
    let before = thread_schedstat().unwrap_or_default();
    let request = request(options, authority, model);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut sockets = Vec::with_capacity(options.streams);
    for index in 0..options.streams {
        let mut socket = TcpStream::connect(authority)?;
        socket.set_nodelay(true)?;
        socket.write_all(request.as_bytes())?;
        socket.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(u64::try_from(index).unwrap_or(u64::MAX));
        epoll::add(&poll, &socket, data, epoll::EventFlags::IN)?;
        sockets.push(socket);
    }
    let mut buffer = vec![0_u8; 64 << 10];
    let mut ready = Vec::with_capacity(1024);
    let (mut open, mut ends) = (sockets.len(), 0);
    while open > 0 {
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut ready), None)?;
        for event in ready.drain(..) {
            let index = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some(socket) = sockets.get_mut(index) else {
                continue;
            };
            match socket.read(&mut buffer) {
                Ok(0) | Err(_) => {
                    epoll::delete(&poll, &*socket)?;
                    open -= 1;
                }
                Ok(n) => ends += ends_in(buffer.get(..n).unwrap_or_default()),
            }
        }
    }
    let after = thread_schedstat().unwrap_or_default();
    // Every stream has two events more: the finish reason and the end marker.
    let events = usize::try_from(options.tokens).unwrap_or(0) * options.streams;
    if ends < events {
        return Err(std::io::Error::other(format!(
            "{ends} events, {events} were due"
        )));
    }
    Ok(Bare {
        events,
        cpu: after.cpu - before.cpu,
    })
}

/// Blank lines; one that a read cut in two is missed, which the count of the whole load can bear.
fn ends_in(bytes: &[u8]) -> usize {
    memchr::memmem::find_iter(bytes, b"\n\n").count()
}
