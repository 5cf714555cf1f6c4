#include <doctest/doctest.h>

#include "output/record.h"

using namespace pagedinfer;

namespace {

Completion example() {
  Completion completion;
  completion.head = {.index = 4, .line = 9, .arrived = 1.0, .id_json = "\"a\\n\""};
  completion.num_prompt_tokens = 3;
  completion.num_completion_tokens = 2;
  completion.choices = {{.tokens = {5, 6}, .text = "two \"words\"\n\xC3\xA9"}};
  completion.timing = {1.5, 2.0, 3.2500004};
  completion.num_cached_tokens = 32;
  return completion;
}

// Two choices, of three that were drawn.
Completion two_choices() {
  Completion completion = example();
  completion.num_completion_tokens = 9;
  completion.choices = {{.tokens = {5, 6}, .text = "one"},
                        {.tokens = {7}, .text = "two", .reason = FinishReason::kStop}};
  return completion;
}

Completion failure() {
  Completion completion = example();
  completion.error = {"invalid_value", "top_p: found \"x\""};
  return completion;
}

std::string written_record(const Completion& completion, const RecordOptions& options = {}) {
  std::string out = "before\n";
  append_record(out, completion, options);
  return out.substr(7);
}

}  // namespace

TEST_CASE("a plain record is one line that says what was computed") {
  CHECK(written_record(example()) ==
        R"({"id":"a\n","index":4,"text":"two \"words\"\n)"
        "\xC3\xA9"
        R"(","finish_reason":"length","prompt_tokens":3,"completion_tokens":2})"
        "\n");
  Completion completion = example();
  completion.head.id_json = "";
  completion.choices[0].text = "";
  completion.choices[0].reason = FinishReason::kStop;
  CHECK(written_record(completion, {true, true, ""}) ==
        R"({"id":null,"index":4,"text":"","token_ids":[5,6],"finish_reason":"stop",)"
        R"("prompt_tokens":3,"completion_tokens":2,)"
        R"("timing":{"queue_ms":500,"ttft_ms":1000,"e2e_ms":2250,"cached_tokens":32}})"
        "\n");
}

TEST_CASE("a record of the OpenAI form holds the whole response") {
  Completion completion = example();
  completion.head.form = RecordForm::kOpenAiCompletion;
  completion.choices[0].text = "hi";
  completion.choices[0].reason = FinishReason::kStop;
  CHECK(written_record(completion, {false, false, "m"}) ==
        R"({"id":"batch_req_4","custom_id":"a\n","index":4,"response":{"status_code":200,)"
        R"("request_id":"req_4","body":{"id":"cmpl-4","object":"text_completion","created":0,)"
        R"("model":"m","choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":"stop"}],)"
        R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}},"error":null})"
        "\n");
}

TEST_CASE("a record of a chat line holds the whole response, and ours stands outside of it") {
  Completion completion = example();
  completion.head.form = RecordForm::kOpenAiChat;
  completion.choices[0].text = "hi";
  completion.choices[0].reason = FinishReason::kStop;
  CHECK(
      written_record(completion, {true, true, "m"}) ==
      R"({"id":"batch_req_4","custom_id":"a\n","index":4,"response":{"status_code":200,)"
      R"("request_id":"req_4","body":{"id":"chatcmpl-4","object":"chat.completion","created":0,)"
      R"("model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi",)"
      R"("refusal":null},"logprobs":null,"finish_reason":"stop"}],)"
      R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":32}}}},"error":null,)"
      R"("token_ids":[5,6],"timing":{"queue_ms":500,"ttft_ms":1000,"e2e_ms":2250,"cached_tokens":32}})"
      "\n");
}

TEST_CASE("several choices of a plain record stand in a list") {
  CHECK(written_record(two_choices()) ==
        R"({"id":"a\n","index":4,"choices":[{"index":0,"text":"one","finish_reason":"length"},)"
        R"({"index":1,"text":"two","finish_reason":"stop"}],)"
        R"("prompt_tokens":3,"completion_tokens":9})"
        "\n");
  CHECK(written_record(two_choices(), {true, true, ""}) ==
        R"({"id":"a\n","index":4,"choices":[)"
        R"({"index":0,"text":"one","token_ids":[5,6],"finish_reason":"length"},)"
        R"({"index":1,"text":"two","token_ids":[7],"finish_reason":"stop"}],)"
        R"("prompt_tokens":3,"completion_tokens":9,)"
        R"("timing":{"queue_ms":500,"ttft_ms":1000,"e2e_ms":2250,"cached_tokens":32}})"
        "\n");
}

TEST_CASE("several choices of the OpenAI forms stand in their list, and usage counts all drawn") {
  Completion completion = two_choices();
  completion.head.form = RecordForm::kOpenAiCompletion;
  const std::string words = written_record(completion, {true, false, "m"});
  CHECK(words.find(R"("choices":[{"index":0,"text":"one","logprobs":null,)"
                   R"("finish_reason":"length"},{"index":1,"text":"two","logprobs":null,)"
                   R"("finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":9,)"
                   R"("total_tokens":12}}},"error":null,"token_ids":[[5,6],[7]]})") !=
        std::string::npos);
  completion.head.form = RecordForm::kOpenAiChat;
  CHECK(written_record(completion)
            .find(R"({"index":1,"message":{"role":"assistant","content":"two","refusal":null},)"
                  R"("logprobs":null,"finish_reason":"stop"}],"usage")") != std::string::npos);
}

TEST_CASE("an error record carries line, code and message in the form of its line") {
  Completion completion = failure();
  CHECK(written_record(completion) ==
        R"({"id":"a\n","index":4,"line":9,"error":{"code":"invalid_value",)"
        R"("message":"top_p: found \"x\""}})"
        "\n");
  completion.head.id_json = "";
  for (const RecordForm form : {RecordForm::kOpenAiCompletion, RecordForm::kOpenAiChat}) {
    completion.head.form = form;
    CHECK(written_record(completion) ==
          R"({"id":"batch_req_4","custom_id":null,"index":4,"line":9,"response":null,)"
          R"("error":{"code":"invalid_value","message":"top_p: found \"x\""}})"
          "\n");
  }
}
