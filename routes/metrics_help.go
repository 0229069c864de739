package routes

import (
	"bytes"
	"fmt"
	"strings"
)

// metricHelp is the help text of each series, without those of packages that write their own.
var metricHelp = map[string]string{
	"http_server_active_requests":               "Requests that are being served.",
	"gen_ai_server_request_duration_seconds":    "Time from the head of a request to the end of its answer.",
	"gen_ai_server_time_to_first_token_seconds": "Time from the head of a request to the first event of a stream.",
	"gen_ai_client_token_usage_total":           "Tokens that were charged, by model and kind.",

	"farebox_http_requests_total":           "Answers by status.",
	"farebox_ended_early_total":             "Requests that ended before their answer was complete, by cause.",
	"farebox_request_details_dropped_total": "Failed requests whose details found no room before they could be written.",
	"farebox_panics_total":                  "Panics that were recovered. It must stay 0.",
	"farebox_config_reloads_total":          "Changes of the config file that were applied or refused.",
	"farebox_start_time_seconds":            "When the process started, in Unix seconds.",
	"farebox_upstream_retries_total":        "Attempts of requests after their first one, by model.",
	"farebox_upstream_first_byte_seconds":   "Time from asking a target to the first event of a stream, or to the head of another answer.",
	"farebox_upstream_duration_seconds":     "Time from asking a target to the end of its answer, by how that ended.",
	"farebox_upstream_errors_total":         "Attempts at an upstream that failed, by kind.",
	"farebox_upstream_connections":          "Connections to an upstream, used or idle.",
	"farebox_target_state":                  "0 in use, 1 resting, 2 to be tried again.",
	"farebox_target_failures_total":         "Failures of a target.",
	"farebox_target_rests_total":            "How often the breaker of a target opened.",
	"farebox_target_changes_total":          "Changes of the breaker of a target, by its new state.",
	"farebox_left_out_total":                "Requests from which a member was left out, by its name.",
	"farebox_draining_answers":              "Answers that are read on without their client.",
	"farebox_chat_lookups_total":            "Searches and pages that chats looked up.",
	"farebox_chat_unsealed_answers_total":   "Answers to encrypted chats that the enclave had not encrypted.",
	"farebox_usage_estimated_total":         "Requests whose upstream reported no usage, so that it was estimated.",
	"farebox_usage_claimed_tokens_total":    "Tokens that upstreams reported beyond what a request may cost.",
	"farebox_unpaid_refusals_total":         "Requests that an account or key could not pay, by what refused.",
	"farebox_sign_ins_total":                "Headers that wallets signed, by how they were judged.",

	"farebox_charged_usd_total":           "USD that was charged, by model. The ledger has the exact sums.",
	"farebox_holds_open":                  "Holds of requests in flight.",
	"farebox_held_nano":                   "Money that open holds have reserved, in 1e-9.",
	"farebox_shortfall_nano_total":        "Cost beyond what could be charged, in 1e-9 USD, since the ledger exists.",
	"farebox_debt_nano":                   "What customers still owe of the shortfall, in 1e-9 USD.",
	"farebox_journal_unprojected_records": "Records of the journal that the store does not have yet.",
	"farebox_store_up":                    "1 if the store could be written the last time.",
	"farebox_node_session_age_seconds":    "Time since the session of this node was renewed in the shared store.",
	"farebox_clock_skew_seconds":          "How far the clock of this machine is ahead of a server's.",
	"farebox_idempotency_total":           "Requests with an Idempotency-Key, by outcome.",
	"farebox_items_total":                 "Items of /responses that were kept for references, by outcome.",
	"farebox_responses_total":             "Answers of /responses that were kept, by outcome.",
	"farebox_unattended_keyed":            "Requests with an Idempotency-Key that go on without their client.",

	"farebox_redis_degraded":              "1 while Redis does not answer.",
	"farebox_redis_away_total":            "How often Redis was lost.",
	"farebox_redis_calls_total":           "Calls to Redis.",
	"farebox_redis_errors_total":          "Calls to Redis without an answer.",
	"farebox_redis_leases_total":          "Calls to Redis that took more than one permit.",
	"farebox_shared_limit_refusals_total": "Requests that a shared limit refused.",
	"farebox_shared_limit_alone_total":    "Requests that were decided without Redis because it was away.",

	"farebox_images_total":              "Pictures that were made, by model.",
	"farebox_unattended_images":         "Requests for pictures that go on without their client.",
	"farebox_prompt_rewrites_total":     "Prompts of pictures that a model rewrote, applied or not.",
	"farebox_speech_characters_total":   "Characters that were spoken, by model.",
	"farebox_speech_first_byte_seconds": "Time from the head of a request to the first byte of sound.",
	"farebox_transcribed_seconds_total": "Seconds of audio that were transcribed, by model.",
	"farebox_characters":                "Characters in effect.",
	"farebox_character_files_wrong":     "Files of characters with errors, which are left out.",

	"farebox_jobs":                          "Jobs that this node drives, by kind and state.",
	"farebox_jobs_ended_total":              "Jobs that ended, by outcome.",
	"farebox_job_alarms_total":              "Jobs that an upstream may charge for though they were refunded, by reason.",
	"farebox_job_steps_active":              "Steps of jobs that are being taken.",
	"farebox_job_submissions_total":         "Orders that were sent to upstreams.",
	"farebox_job_submissions_unknown_total": "Orders of which it is not known whether the upstream has them.",
	"farebox_job_polls_total":               "Questions to upstreams about jobs.",
	"farebox_job_poll_errors_total":         "Questions about jobs without a usable answer.",
	"farebox_job_cancels_total":             "Cancellations that were sent to upstreams.",
	"farebox_job_cancels_unconfirmed_total": "Cancellations without a confirmation.",
	"farebox_job_lost_ownership_total":      "Jobs that another node took from this one.",
	"farebox_job_taken_over_total":          "Jobs that this node took from another one.",
	"farebox_job_store_errors_total":        "Changes of jobs that the store did not take.",
	"farebox_job_media_errors_total":        "Results that could not be kept.",
	"farebox_job_media_bytes_total":         "Bytes of results that were kept.",
	"farebox_job_panics_total":              "Panics in steps of jobs. It must stay 0.",
	"farebox_media_bytes":                   "Bytes of all results that are kept.",
	"farebox_media_files":                   "Results that are kept.",
	"farebox_media_swept_total":             "Results that were removed because no job had them any more.",
	"farebox_media_link_bytes_total":        "Bytes that were served at links of results.",

	"farebox_augment_total":            "Pages, searches and documents that were sold.",
	"farebox_augment_failed_total":     "Pages, searches and documents that failed and cost nothing.",
	"farebox_augment_duration_seconds": "Time of a page, search or document.",
	"farebox_search_state":             "0 in use, 1 resting, 2 to be tried again.",
	"farebox_search_failures_total":    "Failures of an upstream for searches.",
	"farebox_jail_jobs":                "Pages and documents that are read or wait for a child.",
	"farebox_jail_children_total":      "Child processes that were started.",
	"farebox_jail_deaths_total":        "Child processes that died of themselves or were killed from outside.",

	"farebox_rpc_calls_total":              "Blockchain calls that were answered, by network.",
	"farebox_rpc_credits_total":            "Credits that were charged, by network.",
	"farebox_rpc_charged_usd_total":        "USD that was charged for blockchain calls. The ledger has the exact sums.",
	"farebox_rpc_request_duration_seconds": "Time of a request with blockchain calls.",
	"farebox_rpc_carried_requests":         "Requests with writes that go on without their client.",
	"farebox_rpc_node_state":               "0 in use, 1 resting, 2 to be tried again.",
	"farebox_rpc_node_failures_total":      "Failures of a node.",
	"farebox_rpc_node_rests_total":         "How often the breaker of a node opened.",
	"farebox_rpc_node_answers_total":       "Answers of a node.",
	"farebox_rpc_node_busy_total":          "Answers that said the node or its plan has no capacity.",
	"farebox_rpc_node_connections":         "Connections to a node, by state.",
	"farebox_rpc_node_head":                "Number of the newest block or slot, 0 if unknown.",
	"farebox_rpc_node_odd_chain":           "1 when the node is on another chain than its network, and gets no requests.",
	"farebox_rpc_cache_hits_total":         "Calls that were answered from the cache.",
	"farebox_rpc_final_block":              "Newest block that is final.",
	"farebox_rpc_spool_bytes":              "What answers to batches take now, in memory and on the disk.",
	"farebox_rpc_spool_failures_total":     "Large answers to batches that could not be held; the log says why.",

	"farebox_payments":                     "Payments without an outcome, of all nodes, by state.",
	"farebox_payments_under_way":           "Payments that this node is submitting.",
	"farebox_payments_credited_total":      "Payments that were credited.",
	"farebox_payments_credited_usd_total":  "USD that payments brought.",
	"farebox_payments_refused_total":       "Payments that were refused.",
	"farebox_payments_reversed_total":      "Credits that were taken back because the chain dropped the payment.",
	"farebox_payments_dead_total":          "Payments that can never arrive any more.",
	"farebox_payment_submissions_total":    "Submissions of payments, by how they ended.",
	"farebox_payment_settles_total":        "Questions to facilitators.",
	"farebox_payment_looks_total":          "Questions to chains.",
	"farebox_payment_oldest_seconds":       "Age of the oldest payment without an outcome; 0 without one.",
	"farebox_payment_alarm_seconds":        "Age from which a payment without an outcome is an alarm.",
	"farebox_payment_disagreements_total":  "Times that nodes of a chain disagreed about a payment.",
	"farebox_payment_contradictions_total": "Times that the chain contradicted a facilitator.",
	"farebox_payment_desk_errors_total":    "Questions about payments without a usable answer.",
	"farebox_payment_store_errors_total":   "Changes of payments that the store did not take.",
	"farebox_payment_panics_total":         "Panics in the work on payments. It must stay 0.",
	"farebox_facilitator_up":               "1 if the facilitator is in use.",
	"farebox_facilitator_calls_total":      "Calls to a facilitator, by outcome.",
	"farebox_facilitator_duration_seconds": "Time of a call to a facilitator.",
	"farebox_x402_token_wrong":             "1 if the token of a network is not as the config says.",

	"farebox_tee_verified":                          "1 if the enclave is verified.",
	"farebox_tee_attested_timestamp_seconds":        "When the enclave was attested last, in Unix seconds.",
	"farebox_tee_turned_timestamp_seconds":          "When the verdict about the enclave changed last, in Unix seconds.",
	"farebox_tee_failed_check":                      "Checks that the enclave failed.",
	"farebox_tee_not_checked":                       "Checks that were not made.",
	"farebox_tee_proven_keys":                       "Keys of the enclave that are proven.",
	"farebox_tee_plain_answers_total":               "Answers of the enclave that were not encrypted.",
	"farebox_tee_answers_lost_total":                "Answers whose signature could not be kept.",
	"farebox_tee_collateral_ends_timestamp_seconds": "When the first of Intel's documents runs out, in Unix seconds.",
}

// withHelp adds the help text of each series, and its type where that is missing.
func withHelp(text []byte) []byte {
	out, announced := new(bytes.Buffer), map[string]bool{}
	announce := func(name string) {
		if help := metricHelp[name]; help != "" {
			fmt.Fprintf(out, "# HELP %s %s\n", name, help)
		}
		announced[name] = true
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("# HELP ")) {
			continue // without a text: this is the place of all texts
		}
		if rest, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
			name, _, _ := bytes.Cut(rest, []byte(" "))
			announce(string(name))
		} else if end := bytes.IndexAny(line, "{ "); end > 0 {
			if name := string(line[:end]); !announced[name] && metricHelp[name] != "" {
				announce(name)
				kind := "gauge"
				if strings.HasSuffix(name, "_total") {
					kind = "counter"
				}
				fmt.Fprintf(out, "# TYPE %s %s\n", name, kind)
			}
		}
		out.Write(line)
	}
	return out.Bytes()
}
