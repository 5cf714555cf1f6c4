// The table of subcommands.
#pragma once

#include <tuple>

#include "commands/bench/bench_config.h"
#include "commands/bench/bench_job.h"
#include "commands/command.h"
#include "commands/info/info_job.h"
#include "commands/merge/merge_job.h"
#include "commands/output_paths.h"
#include "commands/plan/plan_job.h"
#include "commands/run/job.h"
#include "commands/verify/verify_config.h"
#include "commands/verify/verify_job.h"

namespace pagedinfer {

inline constexpr std::tuple kCommands = {
    Command<Config>{.name = "run",
                    .help = "Complete a file of prompts, one record for each line.",
                    .example = "pagedinfer run --input prompts.jsonl --model DIR --max-tokens 100",
                    .footer = "A line may override the sampling flags; they override the model's "
                              "generation_config.json.",
                    .config = [](Config& config) -> Config& { return config; },
                    .word_flag = "--input",
                    .run =
                        [](Config& config, const CommandLine& line) {
                          line.standard.check_input("--input", config.input);
                          line.standard.check_output("--output", resolve_paths(config).output);
                          return run_job(config);
                        }},
    Command<MergeConfig>{
        .name = "merge",
        .help = "Put the outputs of shards together, in the order of the input.",
        .example = "pagedinfer merge shard-*.jsonl --output all.jsonl",
        .footer = "Every index from 0 to the largest must be there once. The SHARD.run files are "
                  "checked too: the runs must differ in the shard only, no shard may be missing, "
                  "and each output must be what its run has written.",
        .flags = merge_flags,
        .run =
            [](MergeConfig& merge, const CommandLine& line) {
              line.standard.check_output("--output", merge.output);
              return run_merge(merge);
            }},
    Command<BenchConfig>{.name = "bench",
                         .help = "Make a workload and measure a run of it.",
                         .example = "pagedinfer bench --workload baseline --model DIR",
                         .footer = "Completions are kept only with --output, statistics only with "
                                   "--stats. The exit codes are the same as for run.",
                         .flags = bench_flags,
                         .config = [](BenchConfig& bench) -> Config& { return bench.config; },
                         .unused = unused_in_bench,
                         .variants_flag = "--compare",
                         .word_flag = "--workload",
                         .run =
                             [](BenchConfig& bench, const CommandLine& line) {
                               check_workload(bench);
                               check_output_name("--emit", bench.emit);
                               check_output_name("--results", bench.results);
                               line.standard.check_output("--output", bench.config.output);
                               read_command_line(line, bench);
                               return run_bench(bench);
                             }},
    Command<PlanConfig>{.name = "plan",
                        .help = "Show what a run needs: memory, and how many sequences at once.",
                        .example = "pagedinfer plan --input prompts.jsonl --model DIR",
                        .footer = "One command line serves plan and run; plan writes no file.",
                        .flags = plan_flags,
                        .config = [](PlanConfig& plan) -> Config& { return plan.config; },
                        .word_flag = "--input",
                        .run =
                            [](PlanConfig& plan, const CommandLine& line) {
                              line.standard.check_input("--input", plan.config.input);
                              return run_plan_job(plan);
                            }},
    Command<InfoConfig>{
        .name = "info",
        .help = "Describe a model, and say which parts of it are supported.",
        .example = "pagedinfer info --model DIR",
        .footer = "No weights are loaded; only the headers of the checkpoint are read.",
        .flags = info_flags,
        .config = [](InfoConfig& info) -> Config& { return info.config; },
        .takes = is_of_info,
        .word_flag = "--model",
        .run =
            [](InfoConfig& info, const CommandLine& line) {
              line.standard.check_input("--render", info.render);
              line.standard.check_output("--output", "-");
              return run_info(info);
            }},
    Command<VerifyConfig>{
        .name = "verify",
        .help = "Compare two configurations over a file of prompts.",
        .example =
            "pagedinfer verify --input prompts.jsonl --b \"--quantize int8\" --tolerance 0.5",
        .footer = "The file is run in both configurations, first in a; the other flags apply to "
                  "both. All tokens must be equal, and errors must have the same code.",
        .flags = verify_flags,
        .config = [](VerifyConfig& verify) -> Config& { return verify.config; },
        .unused = unused_in_verify,
        .word_flag = "--input",
        .run =
            [](VerifyConfig& verify, const CommandLine& line) {
              check_output_name("--output", verify.output);
              line.standard.check_output("--output", verify.output);
              read_sides(line, verify);
              return run_verify(verify);
            }},
};

}  // namespace pagedinfer
