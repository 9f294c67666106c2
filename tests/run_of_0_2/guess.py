from outrider.environments.environment import Environment, Reply
from outrider.record import correct, incorrect


class Guess(Environment):
    def begin(self, problem, seed):
        self.number, self.left = int(problem.answer), 4
        return ""  # what the policy reads before its first turn, beside the prompt

    def step(self, text):
        guess, self.left = text.removesuffix(";"), self.left - 1
        if guess == str(self.number) or self.left == 0:
            return Reply(done=True, verdict=correct(guess) if guess == str(self.number) else incorrect(guess))
        if not guess.isdecimal():
            return Reply("*;", error=True)
        return Reply("+;" if int(guess) < self.number else "-;")
