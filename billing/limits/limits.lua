-- Checks all limits of one request and takes from all of them, or from none.
-- The arithmetic is that of package window: times of arrival in nanoseconds for
-- minutes, hours and tokens, counters of the UTC calendar for days and months.
-- Numbers travel and rest as packed doubles: turning them into decimal text and
-- back took longer than all the rest. Times of arrival are kept relative to the
-- second in which the window began, since a double holds 104 days of
-- nanoseconds exactly, but not those since 1970.
--
-- keys: the states of the windows.
-- args: for each window what wire.go packs.
-- The answer: status, the server's time in microseconds; then the state of each
-- window. Status 0: taken. Above 0: that window refuses, and nothing is taken.

local MINUTE, HOUR, DAY = 60e9, 3600e9, 86400

-- The days-to-civil algorithm of Howard Hinnant, as in package window.
local function month_of(day)
  local floor = math.floor
  local z = day + 719468
  local era = floor(z / 146097)
  local doe = z - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp = floor((5 * doy + 2) / 153)
  local m, y = mp + 3, yoe + era * 400
  if m > 12 then m = m - 12 end
  if m <= 2 then y = y + 1 end
  return (y - 1970) * 12 + m - 1
end

-- later moves a time of arrival by what is owed: more may go past the burst,
-- less is given back, but never below now.
local function later(tat, now, owed)
  if owed > 0 then return math.max(tat, now) + owed end
  if owed < 0 and tat > now then return math.max(tat + owed, now) end
  return tat
end

local function take(keys, args)
  local pack, unpack, call, floor = struct.pack, struct.unpack, redis.call, math.floor
  local max, min = math.max, math.min
  local clock = call('TIME')
  local sec, usec = tonumber(clock[1]), tonumber(clock[2])
  local blob = args[1]
  local at = 1

  local day = floor(sec / DAY)
  local month
  local refused = 0
  local windows = {}
  for i = 1, #keys do
    local w = {}
    local base, minute, hour, tokens, w_day, in_day, w_month, in_month
    local state = call('GET', keys[i])
    if state then
      base, minute, hour, tokens, w_day, in_day, w_month, in_month = unpack('<dddddddd', state)
    else
      base, minute, hour, tokens, w_day, in_day, w_month, in_month = sec, 0, 0, 0, day, 0, 0, 0
    end
    local now = (sec - base) * 1e9 + usec * 1e3
    local extra, want, minute_one, minute_unit, minute_ahead, hour_one, hour_unit, day_limit, month_limit, token_ask, token_take, token_more
    extra, want, minute_one, minute_unit, minute_ahead, hour_one, hour_unit, day_limit, month_limit, token_ask, token_take, token_more, at =
      unpack('<dddddddddddd', blob, at)
    if not month and (month_limit > 0 or extra ~= 0) then month = month_of(day) end
    -- A counter of another day or month counts nothing any more.
    local daily, monthly = in_day, in_month
    if w_day ~= day then daily = 0 end
    if month and w_month ~= month then monthly = 0 end

    if extra ~= 0 then
      local owed_minute, owed_hour, owed_tokens, owed_on, owed_day, owed_month
      owed_minute, owed_hour, owed_tokens, owed_on, owed_day, owed_month, at = unpack('<dddddd', blob, at)
      minute = later(minute, now, owed_minute)
      hour = later(hour, now, owed_hour)
      tokens = later(tokens, now, owed_tokens)
      if owed_on == day then daily = max(0, daily + owed_day) end
      if owed_month ~= 0 and month_of(owed_on) == month then monthly = max(0, monthly + owed_month) end
    end

    local granted, more, full = want, 0, false
    if want > 0 then
      if minute_one > 0 then
        local free = minute_ahead - (max(minute, now) - now)
        granted = free < minute_one and 0 or min(granted, 1 + floor((free - minute_one) / minute_unit))
      end
      if hour_one > 0 then
        local free = HOUR - (max(hour, now) - now)
        granted = free < hour_one and 0 or min(granted, 1 + floor((free - hour_one) / hour_unit))
      end
      if day_limit > 0 then granted = min(granted, day_limit - daily) end
      if month_limit > 0 then granted = min(granted, month_limit - monthly) end
      full = granted < 1
    end
    if token_take > 0 or token_more > 0 then
      local used = max(tokens, now) - now
      full = full or used + token_ask > MINUTE
      more = max(0, min(token_more, MINUTE - used - token_take))
    end
    if full and refused == 0 then refused = i end
    windows[i] = w
    w.base, w.now, w.minute, w.hour, w.tokens, w.daily, w.monthly = base, now, minute, hour, tokens, daily, monthly
    w.month, w.granted, w.more, w.changed = month or w_month, granted, more, extra ~= 0
    w.minute_one, w.minute_unit, w.hour_one, w.hour_unit = minute_one, minute_unit, hour_one, hour_unit
    w.day_limit, w.month_limit, w.token_take = day_limit, month_limit, token_take
  end

  local answer = pack('<dd', refused, sec * 1e6 + usec)
  for i = 1, #keys do
    local w = windows[i]
    local now, granted, more = w.now, 0, 0
    if refused == 0 then
      granted, more = w.granted, w.more
      if granted > 0 then
        if w.minute_one > 0 then w.minute = max(w.minute, now) + w.minute_one + math.ceil((granted - 1) * w.minute_unit) end
        if w.hour_one > 0 then w.hour = max(w.hour, now) + w.hour_one + math.ceil((granted - 1) * w.hour_unit) end
        if w.day_limit > 0 then w.daily = w.daily + granted end
        if w.month_limit > 0 then w.monthly = w.monthly + granted end
        w.changed = true
      end
      if w.token_take + more > 0 then
        w.tokens = max(w.tokens, now) + w.token_take + more
        w.changed = true
      end
    end
    local minute, hour, tokens = max(0, w.minute - now), max(0, w.hour - now), max(0, w.tokens - now)
    if w.changed then
      local rest = max(minute, hour, tokens) / 1e9
      if w.daily > 0 then rest = max(rest, DAY - sec % DAY) end
      if w.monthly > 0 then rest = max(rest, 32 * DAY) end
      call('SET', keys[i], pack('<dddddddd', w.base, w.minute, w.hour, w.tokens, day, w.daily, w.month, w.monthly),
        'EX', floor(rest) + 2)
    end
    answer = answer .. pack('<ddddddddd', minute, hour, tokens, day, w.daily, w.month, w.monthly, granted, more)
  end
  return answer
end
