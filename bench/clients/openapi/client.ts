import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";

declare const process: { env: Record<string, string>; exit(code: number): never };

const client = createClient<paths, "application/json">({
  baseUrl: process.env.FAREBOX_URL, headers: { Authorization: `Bearer ${process.env.FAREBOX_KEY}` },
});
const chat = await client.POST("/chat/completions", {
  body: { model: "sim-chat-small", messages: [{ role: "user", content: "Hello" }] },
});
const models = await client.GET("/models", { params: { query: { type: "text" } } });
const job = await client.POST("/audio/queue", { body: { model: "sim-music", prompt: "A calm piano piece", duration_seconds: 60 } });
const refused = await client.POST("/chat/completions", { body: { model: "none", messages: [{ role: "user", content: "Hello" }] } });
console.log(JSON.stringify([chat.data?.choices[0].message.role, models.data?.data[0].id, job.data?.queue_id.length,
  refused.error?.code, refused.response.status]));
