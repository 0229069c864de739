// Package prices has the list of models that vendors sell, with their prices, context lengths and features.
// `farebox init`, `farebox prices`, `farebox import` and models such as openai/* read it. The list is LiteLLM's,
// as its package on PyPI has it; update.py writes it anew, and a file in the same form replaces it.
package prices
