//! Manual pages and shell completions of the five programs, made from their command lines: `pages FOLDER` writes them where an
//! installation under that prefix has them.

use std::error::Error;
use std::fs::create_dir_all;
use std::path::PathBuf;

use bench_runner::config::command;
use clap_complete::{Shell, generate_to};

fn main() -> Result<(), Box<dyn Error>> {
    let share =
        PathBuf::from(std::env::args_os().nth(1).ok_or("usage: pages FOLDER")?).join("share");
    let manual = share.join("man/man1");
    create_dir_all(&manual)?;
    let benchmarks = [
        bench_latency::PROGRAM,
        bench_throughput::PROGRAM,
        bench_seqlen::PROGRAM,
    ];
    let benchmarks = benchmarks.map(|program| command(program.benchmark, program.about));
    let others = [
        bench_report_command::command(),
        bench_engine_command::command(),
    ];
    for mut program in benchmarks.into_iter().chain(others) {
        let name = program.get_name().to_owned();
        clap_mangen::generate_to(program.clone(), &manual)?;
        for (shell, folder) in [
            (Shell::Bash, "bash-completion/completions"),
            (Shell::Zsh, "zsh/site-functions"),
            (Shell::Fish, "fish/vendor_completions.d"),
        ] {
            let folder = share.join(folder);
            create_dir_all(&folder)?;
            let file = generate_to(shell, &mut program, name.as_str(), &folder)?;
            if shell == Shell::Bash {
                // bash-completion loads a file by the program's name
                std::fs::rename(file, folder.join(&name))?;
            }
        }
    }
    Ok(())
}
